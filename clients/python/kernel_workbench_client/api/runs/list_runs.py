from http import HTTPStatus
from typing import Any
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.list_runs_state_type_0 import (
    ListRunsStateType0,
)
from ...models.page_run_summary import PageRunSummary
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    cursor: str | Unset = "",
    limit: int | Unset = 25,
    state: ListRunsStateType0 | None | Unset = UNSET,
    workload: None | Unset | UUID = UNSET,
    prefix: str | Unset = "",
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["cursor"] = cursor

    params["limit"] = limit

    json_state: None | str | Unset
    if isinstance(state, Unset):
        json_state = UNSET
    elif isinstance(state, str):
        json_state = state
    else:
        json_state = state
    params["state"] = json_state

    json_workload: None | str | Unset
    if isinstance(workload, Unset):
        json_workload = UNSET
    elif isinstance(workload, UUID):
        json_workload = str(workload)
    else:
        json_workload = workload
    params["workload"] = json_workload

    params["prefix"] = prefix

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/api/v1/runs",
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> PageRunSummary | ProblemDocument:
    if response.status_code == 200:
        response_200 = PageRunSummary.from_dict(response.json())

        return response_200

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[PageRunSummary | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    cursor: str | Unset = "",
    limit: int | Unset = 25,
    state: ListRunsStateType0 | None | Unset = UNSET,
    workload: None | Unset | UUID = UNSET,
    prefix: str | Unset = "",
) -> Response[PageRunSummary | ProblemDocument]:
    """List runs, newest first

     The organisation's runs, perhaps those of one state or one workload.

    Args:
        cursor (str | Unset): `next` of the page before Default: ''.
        limit (int | Unset):  Default: 25.
        state (ListRunsStateType0 | None | Unset):
        workload (None | Unset | UUID):
        prefix (str | Unset): how the id begins: 4 to 8 hexadecimal digits Default: ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[PageRunSummary | ProblemDocument]
    """

    kwargs = _get_kwargs(
        cursor=cursor,
        limit=limit,
        state=state,
        workload=workload,
        prefix=prefix,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    cursor: str | Unset = "",
    limit: int | Unset = 25,
    state: ListRunsStateType0 | None | Unset = UNSET,
    workload: None | Unset | UUID = UNSET,
    prefix: str | Unset = "",
) -> PageRunSummary | ProblemDocument | None:
    """List runs, newest first

     The organisation's runs, perhaps those of one state or one workload.

    Args:
        cursor (str | Unset): `next` of the page before Default: ''.
        limit (int | Unset):  Default: 25.
        state (ListRunsStateType0 | None | Unset):
        workload (None | Unset | UUID):
        prefix (str | Unset): how the id begins: 4 to 8 hexadecimal digits Default: ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        PageRunSummary | ProblemDocument
    """

    return sync_detailed(
        client=client,
        cursor=cursor,
        limit=limit,
        state=state,
        workload=workload,
        prefix=prefix,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    cursor: str | Unset = "",
    limit: int | Unset = 25,
    state: ListRunsStateType0 | None | Unset = UNSET,
    workload: None | Unset | UUID = UNSET,
    prefix: str | Unset = "",
) -> Response[PageRunSummary | ProblemDocument]:
    """List runs, newest first

     The organisation's runs, perhaps those of one state or one workload.

    Args:
        cursor (str | Unset): `next` of the page before Default: ''.
        limit (int | Unset):  Default: 25.
        state (ListRunsStateType0 | None | Unset):
        workload (None | Unset | UUID):
        prefix (str | Unset): how the id begins: 4 to 8 hexadecimal digits Default: ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[PageRunSummary | ProblemDocument]
    """

    kwargs = _get_kwargs(
        cursor=cursor,
        limit=limit,
        state=state,
        workload=workload,
        prefix=prefix,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    cursor: str | Unset = "",
    limit: int | Unset = 25,
    state: ListRunsStateType0 | None | Unset = UNSET,
    workload: None | Unset | UUID = UNSET,
    prefix: str | Unset = "",
) -> PageRunSummary | ProblemDocument | None:
    """List runs, newest first

     The organisation's runs, perhaps those of one state or one workload.

    Args:
        cursor (str | Unset): `next` of the page before Default: ''.
        limit (int | Unset):  Default: 25.
        state (ListRunsStateType0 | None | Unset):
        workload (None | Unset | UUID):
        prefix (str | Unset): how the id begins: 4 to 8 hexadecimal digits Default: ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        PageRunSummary | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            cursor=cursor,
            limit=limit,
            state=state,
            workload=workload,
            prefix=prefix,
        )
    ).parsed
