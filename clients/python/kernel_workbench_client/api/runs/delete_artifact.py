from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.delete_artifact_stage import (
    DeleteArtifactStage,
)
from ...models.problem_document import ProblemDocument
from ...types import Response


def _get_kwargs(
    run_id: UUID,
    stage: DeleteArtifactStage,
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/api/v1/runs/{run_id}/artifacts/{stage}/{name}".format(
            run_id=quote(str(run_id), safe=""),
            stage=quote(str(stage), safe=""),
            name=quote(str(name), safe=""),
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
    run_id: UUID,
    stage: DeleteArtifactStage,
    name: str,
    *,
    client: AuthenticatedClient,
) -> Response[Any | ProblemDocument]:
    """Delete a file

     A file that a stage kept. The run's results stay.

    Args:
        run_id (UUID):
        stage (DeleteArtifactStage):
        name (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        stage=stage,
        name=name,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    run_id: UUID,
    stage: DeleteArtifactStage,
    name: str,
    *,
    client: AuthenticatedClient,
) -> Any | ProblemDocument | None:
    """Delete a file

     A file that a stage kept. The run's results stay.

    Args:
        run_id (UUID):
        stage (DeleteArtifactStage):
        name (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return sync_detailed(
        run_id=run_id,
        stage=stage,
        name=name,
        client=client,
    ).parsed


async def asyncio_detailed(
    run_id: UUID,
    stage: DeleteArtifactStage,
    name: str,
    *,
    client: AuthenticatedClient,
) -> Response[Any | ProblemDocument]:
    """Delete a file

     A file that a stage kept. The run's results stay.

    Args:
        run_id (UUID):
        stage (DeleteArtifactStage):
        name (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        stage=stage,
        name=name,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    run_id: UUID,
    stage: DeleteArtifactStage,
    name: str,
    *,
    client: AuthenticatedClient,
) -> Any | ProblemDocument | None:
    """Delete a file

     A file that a stage kept. The run's results stay.

    Args:
        run_id (UUID):
        stage (DeleteArtifactStage):
        name (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return (
        await asyncio_detailed(
            run_id=run_id,
            stage=stage,
            name=name,
            client=client,
        )
    ).parsed
