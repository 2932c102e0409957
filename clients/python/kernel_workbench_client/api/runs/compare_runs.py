from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.comparison import Comparison
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    run_id: UUID,
    *,
    kept_id: UUID,
    percent: float | Unset = 3.0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    json_kept_id = str(kept_id)
    params["kept_id"] = json_kept_id

    params["percent"] = percent

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/api/v1/runs/{run_id}/comparison".format(
            run_id=quote(str(run_id), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> Comparison | ProblemDocument:
    if response.status_code == 200:
        response_200 = Comparison.from_dict(response.json())

        return response_200

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[Comparison | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    run_id: UUID,
    *,
    client: AuthenticatedClient,
    kept_id: UUID,
    percent: float | Unset = 3.0,
) -> Response[Comparison | ProblemDocument]:
    """Hold a run against a kept one

     Whether the run is worse than a kept one of the same model, GPU, traffic and first objective: a
    build's gate.

    Args:
        run_id (UUID):
        kept_id (UUID):
        percent (float | Unset): how much worse than the kept run it may be Default: 3.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Comparison | ProblemDocument]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        kept_id=kept_id,
        percent=percent,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    run_id: UUID,
    *,
    client: AuthenticatedClient,
    kept_id: UUID,
    percent: float | Unset = 3.0,
) -> Comparison | ProblemDocument | None:
    """Hold a run against a kept one

     Whether the run is worse than a kept one of the same model, GPU, traffic and first objective: a
    build's gate.

    Args:
        run_id (UUID):
        kept_id (UUID):
        percent (float | Unset): how much worse than the kept run it may be Default: 3.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Comparison | ProblemDocument
    """

    return sync_detailed(
        run_id=run_id,
        client=client,
        kept_id=kept_id,
        percent=percent,
    ).parsed


async def asyncio_detailed(
    run_id: UUID,
    *,
    client: AuthenticatedClient,
    kept_id: UUID,
    percent: float | Unset = 3.0,
) -> Response[Comparison | ProblemDocument]:
    """Hold a run against a kept one

     Whether the run is worse than a kept one of the same model, GPU, traffic and first objective: a
    build's gate.

    Args:
        run_id (UUID):
        kept_id (UUID):
        percent (float | Unset): how much worse than the kept run it may be Default: 3.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Comparison | ProblemDocument]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        kept_id=kept_id,
        percent=percent,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    run_id: UUID,
    *,
    client: AuthenticatedClient,
    kept_id: UUID,
    percent: float | Unset = 3.0,
) -> Comparison | ProblemDocument | None:
    """Hold a run against a kept one

     Whether the run is worse than a kept one of the same model, GPU, traffic and first objective: a
    build's gate.

    Args:
        run_id (UUID):
        kept_id (UUID):
        percent (float | Unset): how much worse than the kept run it may be Default: 3.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Comparison | ProblemDocument
    """

    return (
        await asyncio_detailed(
            run_id=run_id,
            client=client,
            kept_id=kept_id,
            percent=percent,
        )
    ).parsed
