from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.upload_out import UploadOut
from ...types import Response


def _get_kwargs(
    upload_id: UUID,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/api/v1/uploads/{upload_id}".format(
            upload_id=quote(str(upload_id), safe=""),
        ),
    }

    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> ProblemDocument | UploadOut:
    if response.status_code == 200:
        response_200 = UploadOut.from_dict(response.json())

        return response_200

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[ProblemDocument | UploadOut]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
) -> Response[ProblemDocument | UploadOut]:
    """How far an upload is

     Every file with the number of bytes that have come; after the end, for a day, what became of the
    upload.

    While `state` is `checking`, ask again.

    Args:
        upload_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
) -> ProblemDocument | UploadOut | None:
    """How far an upload is

     Every file with the number of bytes that have come; after the end, for a day, what became of the
    upload.

    While `state` is `checking`, ask again.

    Args:
        upload_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadOut
    """

    return sync_detailed(
        upload_id=upload_id,
        client=client,
    ).parsed


async def asyncio_detailed(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
) -> Response[ProblemDocument | UploadOut]:
    """How far an upload is

     Every file with the number of bytes that have come; after the end, for a day, what became of the
    upload.

    While `state` is `checking`, ask again.

    Args:
        upload_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
) -> ProblemDocument | UploadOut | None:
    """How far an upload is

     Every file with the number of bytes that have come; after the end, for a day, what became of the
    upload.

    While `state` is `checking`, ask again.

    Args:
        upload_id (UUID):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadOut
    """

    return (
        await asyncio_detailed(
            upload_id=upload_id,
            client=client,
        )
    ).parsed
