from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx

from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...models.read_stage_stage import ReadStageStage
from ...models.stage_document import StageDocument
from ...types import Response


def _get_kwargs(
    run_id: UUID,
    stage: ReadStageStage,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/api/v1/runs/{run_id}/stages/{stage}".format(
            run_id=quote(str(run_id), safe=""),
            stage=quote(str(stage), safe=""),
        ),
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> ProblemDocument | StageDocument:
    if response.status_code == 200:
        response_200 = StageDocument.from_dict(response.json())

        return response_200

    response_default = ProblemDocument.from_dict(response.json())

    return response_default


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[ProblemDocument | StageDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    run_id: UUID,
    stage: ReadStageStage,
    *,
    client: AuthenticatedClient,
) -> Response[ProblemDocument | StageDocument]:
    """Read a stage's result

     A stage's result, and while it runs what is already known.

    Args:
        run_id (UUID):
        stage (ReadStageStage):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | StageDocument]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        stage=stage,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    run_id: UUID,
    stage: ReadStageStage,
    *,
    client: AuthenticatedClient,
) -> ProblemDocument | StageDocument | None:
    """Read a stage's result

     A stage's result, and while it runs what is already known.

    Args:
        run_id (UUID):
        stage (ReadStageStage):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | StageDocument
    """

    return sync_detailed(
        run_id=run_id,
        stage=stage,
        client=client,
    ).parsed


async def asyncio_detailed(
    run_id: UUID,
    stage: ReadStageStage,
    *,
    client: AuthenticatedClient,
) -> Response[ProblemDocument | StageDocument]:
    """Read a stage's result

     A stage's result, and while it runs what is already known.

    Args:
        run_id (UUID):
        stage (ReadStageStage):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[ProblemDocument | StageDocument]
    """

    kwargs = _get_kwargs(
        run_id=run_id,
        stage=stage,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    run_id: UUID,
    stage: ReadStageStage,
    *,
    client: AuthenticatedClient,
) -> ProblemDocument | StageDocument | None:
    """Read a stage's result

     A stage's result, and while it runs what is already known.

    Args:
        run_id (UUID):
        stage (ReadStageStage):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        ProblemDocument | StageDocument
    """

    return (
        await asyncio_detailed(
            run_id=run_id,
            stage=stage,
            client=client,
        )
    ).parsed
