from http import HTTPStatus
from typing import Any

import httpx

from ...client import AuthenticatedClient, Client
from ...models.new_price_book import NewPriceBook
from ...models.price_book import PriceBook
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: NewPriceBook,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/api/v1/prices",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> PriceBook | ProblemDocument:
    if response.status_code == 201:
        response_201 = PriceBook.from_dict(response.json())

        return response_201

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[PriceBook | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: NewPriceBook,
    idempotency_key: str | Unset = UNSET,
) -> Response[PriceBook | ProblemDocument]:
    """Put a new price book in force

     Runs from now on use it; reports keep the prices they were made with.

    Args:
        idempotency_key (str | Unset):
        body (NewPriceBook): Prices as they are on `date` (ISO 8601, such as 2026-11-20), where
            they come from, and one price a class.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[PriceBook | ProblemDocument]
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
    body: NewPriceBook,
    idempotency_key: str | Unset = UNSET,
) -> PriceBook | ProblemDocument | None:
    """Put a new price book in force

     Runs from now on use it; reports keep the prices they were made with.

    Args:
        idempotency_key (str | Unset):
        body (NewPriceBook): Prices as they are on `date` (ISO 8601, such as 2026-11-20), where
            they come from, and one price a class.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        PriceBook | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: NewPriceBook,
    idempotency_key: str | Unset = UNSET,
) -> Response[PriceBook | ProblemDocument]:
    """Put a new price book in force

     Runs from now on use it; reports keep the prices they were made with.

    Args:
        idempotency_key (str | Unset):
        body (NewPriceBook): Prices as they are on `date` (ISO 8601, such as 2026-11-20), where
            they come from, and one price a class.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[PriceBook | ProblemDocument]
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
    body: NewPriceBook,
    idempotency_key: str | Unset = UNSET,
) -> PriceBook | ProblemDocument | None:
    """Put a new price book in force

     Runs from now on use it; reports keep the prices they were made with.

    Args:
        idempotency_key (str | Unset):
        body (NewPriceBook): Prices as they are on `date` (ISO 8601, such as 2026-11-20), where
            they come from, and one price a class.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        PriceBook | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
