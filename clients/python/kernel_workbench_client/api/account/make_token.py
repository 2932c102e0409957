from http import HTTPStatus
from typing import Any

import httpx

from ...client import AuthenticatedClient, Client
from ...models.new_token import NewToken
from ...models.problem_document import ProblemDocument
from ...models.token_in import TokenIn
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: TokenIn,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/api/v1/tokens",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> NewToken | ProblemDocument:
    if response.status_code == 201:
        response_201 = NewToken.from_dict(response.json())

        return response_201

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[NewToken | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: TokenIn,
    idempotency_key: str | Unset = UNSET,
) -> Response[NewToken | ProblemDocument]:
    """Make an API token

     Of the caller's, in this organisation. Its secret is given once. A token makes none that outlives
    it.

    Args:
        idempotency_key (str | Unset):
        body (TokenIn): A token to make.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[NewToken | ProblemDocument]
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
    body: TokenIn,
    idempotency_key: str | Unset = UNSET,
) -> NewToken | ProblemDocument | None:
    """Make an API token

     Of the caller's, in this organisation. Its secret is given once. A token makes none that outlives
    it.

    Args:
        idempotency_key (str | Unset):
        body (TokenIn): A token to make.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        NewToken | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: TokenIn,
    idempotency_key: str | Unset = UNSET,
) -> Response[NewToken | ProblemDocument]:
    """Make an API token

     Of the caller's, in this organisation. Its secret is given once. A token makes none that outlives
    it.

    Args:
        idempotency_key (str | Unset):
        body (TokenIn): A token to make.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[NewToken | ProblemDocument]
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
    body: TokenIn,
    idempotency_key: str | Unset = UNSET,
) -> NewToken | ProblemDocument | None:
    """Make an API token

     Of the caller's, in this organisation. Its secret is given once. A token makes none that outlives
    it.

    Args:
        idempotency_key (str | Unset):
        body (TokenIn): A token to make.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        NewToken | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
