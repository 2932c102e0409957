from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.upload_file_out import UploadFileOut
from ...types import Response


def _get_kwargs(
    upload_id: UUID,
    number: int,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/api/v1/uploads/{upload_id}/files/{number}".format(
            upload_id=quote(str(upload_id), safe=""),
            number=quote(str(number), safe=""),
        ),
    }

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
) -> Response[ProblemDocument | UploadFileOut]:
    """Where to go on with a file

     The header `Upload-Offset` (and `received`) says which byte comes next; HEAD gives the header alone.

    Args:
        upload_id (UUID):
        number (int):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadFileOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
        number=number,
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
) -> ProblemDocument | UploadFileOut | None:
    """Where to go on with a file

     The header `Upload-Offset` (and `received`) says which byte comes next; HEAD gives the header alone.

    Args:
        upload_id (UUID):
        number (int):

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
    ).parsed


async def asyncio_detailed(
    upload_id: UUID,
    number: int,
    *,
    client: AuthenticatedClient,
) -> Response[ProblemDocument | UploadFileOut]:
    """Where to go on with a file

     The header `Upload-Offset` (and `received`) says which byte comes next; HEAD gives the header alone.

    Args:
        upload_id (UUID):
        number (int):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadFileOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
        number=number,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    upload_id: UUID,
    number: int,
    *,
    client: AuthenticatedClient,
) -> ProblemDocument | UploadFileOut | None:
    """Where to go on with a file

     The header `Upload-Offset` (and `received`) says which byte comes next; HEAD gives the header alone.

    Args:
        upload_id (UUID):
        number (int):

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
        )
    ).parsed
