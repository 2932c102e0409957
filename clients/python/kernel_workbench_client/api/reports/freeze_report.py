from http import HTTPStatus
from typing import Any

import httpx

from ...client import AuthenticatedClient, Client
from ...models.new_report import NewReport
from ...models.problem_document import ProblemDocument
from ...models.report_summary import ReportSummary
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: NewReport,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/api/v1/reports",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | ReportSummary:
    if response.status_code == 201:
        response_201 = ReportSummary.from_dict(response.json())

        return response_201

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[ProblemDocument | ReportSummary]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: NewReport,
    idempotency_key: str | Unset = UNSET,
) -> Response[ProblemDocument | ReportSummary]:
    """Freeze a run

     Freeze the results of a finished run as a draft.

    Args:
        idempotency_key (str | Unset):
        body (NewReport): The finished run to freeze.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | ReportSummary]
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
    body: NewReport,
    idempotency_key: str | Unset = UNSET,
) -> ProblemDocument | ReportSummary | None:
    """Freeze a run

     Freeze the results of a finished run as a draft.

    Args:
        idempotency_key (str | Unset):
        body (NewReport): The finished run to freeze.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | ReportSummary
    """

    return sync_detailed(
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: NewReport,
    idempotency_key: str | Unset = UNSET,
) -> Response[ProblemDocument | ReportSummary]:
    """Freeze a run

     Freeze the results of a finished run as a draft.

    Args:
        idempotency_key (str | Unset):
        body (NewReport): The finished run to freeze.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | ReportSummary]
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
    body: NewReport,
    idempotency_key: str | Unset = UNSET,
) -> ProblemDocument | ReportSummary | None:
    """Freeze a run

     Freeze the results of a finished run as a draft.

    Args:
        idempotency_key (str | Unset):
        body (NewReport): The finished run to freeze.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | ReportSummary
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
