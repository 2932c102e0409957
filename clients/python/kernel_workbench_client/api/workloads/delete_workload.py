from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    workload_id: UUID,
    *,
    with_dependents: bool | Unset = False,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["with_dependents"] = with_dependents

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/api/v1/workloads/{workload_id}".format(
            workload_id=quote(str(workload_id), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> Any | ProblemDocument:
    if response.status_code == 204:
        response_204 = cast(Any, None)
        return response_204

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[Any | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    workload_id: UUID,
    *,
    client: AuthenticatedClient,
    with_dependents: bool | Unset = False,
) -> Response[Any | ProblemDocument]:
    """Delete a workload

     When it has runs, only `with_dependents`. 409 while one of them is open.

    Args:
        workload_id (UUID):
        with_dependents (bool | Unset):  Default: False.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        workload_id=workload_id,
        with_dependents=with_dependents,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    workload_id: UUID,
    *,
    client: AuthenticatedClient,
    with_dependents: bool | Unset = False,
) -> Any | ProblemDocument | None:
    """Delete a workload

     When it has runs, only `with_dependents`. 409 while one of them is open.

    Args:
        workload_id (UUID):
        with_dependents (bool | Unset):  Default: False.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return sync_detailed(
        workload_id=workload_id,
        client=client,
        with_dependents=with_dependents,
    ).parsed


async def asyncio_detailed(
    workload_id: UUID,
    *,
    client: AuthenticatedClient,
    with_dependents: bool | Unset = False,
) -> Response[Any | ProblemDocument]:
    """Delete a workload

     When it has runs, only `with_dependents`. 409 while one of them is open.

    Args:
        workload_id (UUID):
        with_dependents (bool | Unset):  Default: False.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        workload_id=workload_id,
        with_dependents=with_dependents,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    workload_id: UUID,
    *,
    client: AuthenticatedClient,
    with_dependents: bool | Unset = False,
) -> Any | ProblemDocument | None:
    """Delete a workload

     When it has runs, only `with_dependents`. 409 while one of them is open.

    Args:
        workload_id (UUID):
        with_dependents (bool | Unset):  Default: False.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return (
        await asyncio_detailed(
            workload_id=workload_id,
            client=client,
            with_dependents=with_dependents,
        )
    ).parsed
