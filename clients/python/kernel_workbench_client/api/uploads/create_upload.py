from http import HTTPStatus
from typing import Any

import httpx

from ...client import AuthenticatedClient, Client
from ...models.new_upload import NewUpload
from ...models.problem_document import ProblemDocument
from ...models.upload_out import UploadOut
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: NewUpload,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/api/v1/uploads",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> ProblemDocument | UploadOut:
    if response.status_code == 201:
        response_201 = UploadOut.from_dict(response.json())

        return response_201

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
    *,
    client: AuthenticatedClient,
    body: NewUpload,
    idempotency_key: str | Unset = UNSET,
) -> Response[ProblemDocument | UploadOut]:
    """Announce an upload

     Names the files of a model directory, or a recording of traffic, and their sizes.

    Then PATCH each file's bytes, those of a model's config.json first, then finish: a worker checks the
    files and
    makes a model or a recording of them.

    Args:
        idempotency_key (str | Unset):
        body (NewUpload): A new upload: the model's name and its files, or a recording of traffic,
            which is one file.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadOut]
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
    body: NewUpload,
    idempotency_key: str | Unset = UNSET,
) -> ProblemDocument | UploadOut | None:
    """Announce an upload

     Names the files of a model directory, or a recording of traffic, and their sizes.

    Then PATCH each file's bytes, those of a model's config.json first, then finish: a worker checks the
    files and
    makes a model or a recording of them.

    Args:
        idempotency_key (str | Unset):
        body (NewUpload): A new upload: the model's name and its files, or a recording of traffic,
            which is one file.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadOut
    """

    return sync_detailed(
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: NewUpload,
    idempotency_key: str | Unset = UNSET,
) -> Response[ProblemDocument | UploadOut]:
    """Announce an upload

     Names the files of a model directory, or a recording of traffic, and their sizes.

    Then PATCH each file's bytes, those of a model's config.json first, then finish: a worker checks the
    files and
    makes a model or a recording of them.

    Args:
        idempotency_key (str | Unset):
        body (NewUpload): A new upload: the model's name and its files, or a recording of traffic,
            which is one file.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | UploadOut]
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
    body: NewUpload,
    idempotency_key: str | Unset = UNSET,
) -> ProblemDocument | UploadOut | None:
    """Announce an upload

     Names the files of a model directory, or a recording of traffic, and their sizes.

    Then PATCH each file's bytes, those of a model's config.json first, then finish: a worker checks the
    files and
    makes a model or a recording of them.

    Args:
        idempotency_key (str | Unset):
        body (NewUpload): A new upload: the model's name and its files, or a recording of traffic,
            which is one file.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | UploadOut
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
