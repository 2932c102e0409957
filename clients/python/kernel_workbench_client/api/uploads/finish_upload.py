from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.finish import Finish
from ...models.problem_document import ProblemDocument
from ...models.upload_out import UploadOut
from ...types import UNSET, Response, Unset


def _get_kwargs(
    upload_id: UUID,
    *,
    body: Finish,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/api/v1/uploads/{upload_id}/finish".format(
            upload_id=quote(str(upload_id), safe=""),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> ProblemDocument | UploadOut:
    if response.status_code == 202:
        response_202 = UploadOut.from_dict(response.json())

        return response_202

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
    body: Finish,
    idempotency_key: str | Unset = UNSET,
) -> Response[ProblemDocument | UploadOut]:
    """Finish

     Has hashes and files checked, those of one upload of the organisation at a time. GET the upload
    until its `state`
    is not `checking` any more.

    A recording that no workload names within a day is deleted.

    Args:
        upload_id (UUID):
        idempotency_key (str | Unset):
        body (Finish): The SHA-256 of every file that did not announce it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
        body=body,
        idempotency_key=idempotency_key,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
    body: Finish,
    idempotency_key: str | Unset = UNSET,
) -> ProblemDocument | UploadOut | None:
    """Finish

     Has hashes and files checked, those of one upload of the organisation at a time. GET the upload
    until its `state`
    is not `checking` any more.

    A recording that no workload names within a day is deleted.

    Args:
        upload_id (UUID):
        idempotency_key (str | Unset):
        body (Finish): The SHA-256 of every file that did not announce it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadOut
    """

    return sync_detailed(
        upload_id=upload_id,
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
    body: Finish,
    idempotency_key: str | Unset = UNSET,
) -> Response[ProblemDocument | UploadOut]:
    """Finish

     Has hashes and files checked, those of one upload of the organisation at a time. GET the upload
    until its `state`
    is not `checking` any more.

    A recording that no workload names within a day is deleted.

    Args:
        upload_id (UUID):
        idempotency_key (str | Unset):
        body (Finish): The SHA-256 of every file that did not announce it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadOut]
    """

    kwargs = _get_kwargs(
        upload_id=upload_id,
        body=body,
        idempotency_key=idempotency_key,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    upload_id: UUID,
    *,
    client: AuthenticatedClient,
    body: Finish,
    idempotency_key: str | Unset = UNSET,
) -> ProblemDocument | UploadOut | None:
    """Finish

     Has hashes and files checked, those of one upload of the organisation at a time. GET the upload
    until its `state`
    is not `checking` any more.

    A recording that no workload names within a day is deleted.

    Args:
        upload_id (UUID):
        idempotency_key (str | Unset):
        body (Finish): The SHA-256 of every file that did not announce it.

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
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
