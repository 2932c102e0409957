from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.upload_file_out import UploadFileOut
from ...types import UNSET, File, Response, Unset


def _get_kwargs(
    upload_id: UUID,
    number: int,
    *,
    body: File | Unset = UNSET,
    upload_offset: int,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    headers["Upload-Offset"] = str(upload_offset)

    _kwargs: dict[str, Any] = {
        "method": "patch",
        "url": "/api/v1/uploads/{upload_id}/files/{number}".format(
            upload_id=quote(str(upload_id), safe=""),
            number=quote(str(number), safe=""),
        ),
    }

    if not isinstance(body, Unset):
        _kwargs["content"] = body.payload
    headers["Content-Type"] = "application/octet-stream"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | UploadFileOut:
    if response.status_code == 200:
        response_200 = UploadFileOut.from_dict(response.json())

        return response_200

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[ProblemDocument | UploadFileOut]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    upload_id: UUID,
    number: int,
    *,
    client: AuthenticatedClient,
    body: File | Unset = UNSET,
    upload_offset: int,
) -> Response[ProblemDocument | UploadFileOut]:
    """Send bytes of a file

     The body goes at `Upload-Offset`; a 409 carries the right offset in the same header.

    A model's config.json is checked as soon as it has come. A 422 of a later request says why it is
    refused; the upload
    has then ended, and nothing of it is kept.

    Args:
        upload_id (UUID):
        number (int):
        upload_offset (int):
        body (File | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadFileOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
        number=number,
        body=body,
        upload_offset=upload_offset,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    upload_id: UUID,
    number: int,
    *,
    client: AuthenticatedClient,
    body: File | Unset = UNSET,
    upload_offset: int,
) -> ProblemDocument | UploadFileOut | None:
    """Send bytes of a file

     The body goes at `Upload-Offset`; a 409 carries the right offset in the same header.

    A model's config.json is checked as soon as it has come. A 422 of a later request says why it is
    refused; the upload
    has then ended, and nothing of it is kept.

    Args:
        upload_id (UUID):
        number (int):
        upload_offset (int):
        body (File | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadFileOut
    """

    return sync_detailed(
        upload_id=upload_id,
        number=number,
        client=client,
        body=body,
        upload_offset=upload_offset,
    ).parsed


async def asyncio_detailed(
    upload_id: UUID,
    number: int,
    *,
    client: AuthenticatedClient,
    body: File | Unset = UNSET,
    upload_offset: int,
) -> Response[ProblemDocument | UploadFileOut]:
    """Send bytes of a file

     The body goes at `Upload-Offset`; a 409 carries the right offset in the same header.

    A model's config.json is checked as soon as it has come. A 422 of a later request says why it is
    refused; the upload
    has then ended, and nothing of it is kept.

    Args:
        upload_id (UUID):
        number (int):
        upload_offset (int):
        body (File | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadFileOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
        number=number,
        body=body,
        upload_offset=upload_offset,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    upload_id: UUID,
    number: int,
    *,
    client: AuthenticatedClient,
    body: File | Unset = UNSET,
    upload_offset: int,
) -> ProblemDocument | UploadFileOut | None:
    """Send bytes of a file

     The body goes at `Upload-Offset`; a 409 carries the right offset in the same header.

    A model's config.json is checked as soon as it has come. A 422 of a later request says why it is
    refused; the upload
    has then ended, and nothing of it is kept.

    Args:
        upload_id (UUID):
        number (int):
        upload_offset (int):
        body (File | Unset):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadFileOut
    """

    return (
        await asyncio_detailed(
            upload_id=upload_id,
            number=number,
            client=client,
            body=body,
            upload_offset=upload_offset,
        )
    ).parsed
