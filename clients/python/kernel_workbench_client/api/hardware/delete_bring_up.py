from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...types import Response


def _get_kwargs(
    bring_up_id: UUID,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/api/v1/bring-ups/{bring_up_id}".format(
            bring_up_id=quote(str(bring_up_id), safe=""),
        ),
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
    bring_up_id: UUID,
    *,
    client: AuthenticatedClient,
) -> Response[Any | ProblemDocument]:
    """Delete a bring-up

     Nothing else depends on it.

    Args:
        bring_up_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        bring_up_id=bring_up_id,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    bring_up_id: UUID,
    *,
    client: AuthenticatedClient,
) -> Any | ProblemDocument | None:
    """Delete a bring-up

     Nothing else depends on it.

    Args:
        bring_up_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return sync_detailed(
        bring_up_id=bring_up_id,
        client=client,
    ).parsed


async def asyncio_detailed(
    bring_up_id: UUID,
    *,
    client: AuthenticatedClient,
) -> Response[Any | ProblemDocument]:
    """Delete a bring-up

     Nothing else depends on it.

    Args:
        bring_up_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        bring_up_id=bring_up_id,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    bring_up_id: UUID,
    *,
    client: AuthenticatedClient,
) -> Any | ProblemDocument | None:
    """Delete a bring-up

     Nothing else depends on it.

    Args:
        bring_up_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return (
        await asyncio_detailed(
            bring_up_id=bring_up_id,
            client=client,
        )
    ).parsed
