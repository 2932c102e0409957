from http import HTTPStatus
from typing import Any

import httpx

from ...client import AuthenticatedClient, Client
from ...models.bring_up import BringUp
from ...models.bring_up_summary import BringUpSummary
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: BringUp,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/api/v1/bring-ups",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> BringUpSummary | ProblemDocument:
    if response.status_code == 201:
        response_201 = BringUpSummary.from_dict(response.json())

        return response_201

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[BringUpSummary | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: BringUp,
    idempotency_key: str | Unset = UNSET,
) -> Response[BringUpSummary | ProblemDocument]:
    """Add a bring-up

     The body is bring-up.json, as `python -m kernels bring-up` writes it; 768 KiB at most.

    Args:
        idempotency_key (str | Unset):
        body (BringUp): Everything that a bring-up found.

            `stopped` holds a sentence for each step whose process ended or took too long; `left_out`
            names the steps that there
            was no time for. `limits` is null where their step gave nothing.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[BringUpSummary | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
        idempotency_key=idempotency_key,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    body: BringUp,
    idempotency_key: str | Unset = UNSET,
) -> BringUpSummary | ProblemDocument | None:
    """Add a bring-up

     The body is bring-up.json, as `python -m kernels bring-up` writes it; 768 KiB at most.

    Args:
        idempotency_key (str | Unset):
        body (BringUp): Everything that a bring-up found.

            `stopped` holds a sentence for each step whose process ended or took too long; `left_out`
            names the steps that there
            was no time for. `limits` is null where their step gave nothing.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        BringUpSummary | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: BringUp,
    idempotency_key: str | Unset = UNSET,
) -> Response[BringUpSummary | ProblemDocument]:
    """Add a bring-up

     The body is bring-up.json, as `python -m kernels bring-up` writes it; 768 KiB at most.

    Args:
        idempotency_key (str | Unset):
        body (BringUp): Everything that a bring-up found.

            `stopped` holds a sentence for each step whose process ended or took too long; `left_out`
            names the steps that there
            was no time for. `limits` is null where their step gave nothing.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[BringUpSummary | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
        idempotency_key=idempotency_key,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    body: BringUp,
    idempotency_key: str | Unset = UNSET,
) -> BringUpSummary | ProblemDocument | None:
    """Add a bring-up

     The body is bring-up.json, as `python -m kernels bring-up` writes it; 768 KiB at most.

    Args:
        idempotency_key (str | Unset):
        body (BringUp): Everything that a bring-up found.

            `stopped` holds a sentence for each step whose process ended or took too long; `left_out`
            names the steps that there
            was no time for. `limits` is null where their step gave nothing.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        BringUpSummary | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
