"""The task on a GPU host: it claims a stage over the worker API and runs it in a child process.

    celery -A workers.gpu worker -Q gpu.cpu -c 1 -n gpu-cpu-0@%h

It knows no database and no secret but the worker token. A message is only a hint: what counts is whether the claim is
granted, and once the attempt is refused the message is dropped.
"""

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery import Task
from celery.exceptions import WorkerShutdown
from celery.signals import worker_ready
from pydantic import ValidationError

from workers import bytecode, child, gpu_lock, logs, stage_process
from workers.child_environment import shown
from workers.client import AttemptRefused, Client, Rejected, Unreachable
from workers.config import WorkerConfig
from workers.delivery import celery_app
from workers.device_memory import gpus_for, memory_gib, visible_gpus
from workers.documents.base import Artifact
from workers.documents.broker import GPU_TASK, gpu_class_of
from workers.documents.stages import Progress, StageFailure, StageInput
from workers.documents.worker_api import ENDPOINT_STAGES, Claim, EndpointAccess, Hello, Outcome, StageKey
from workers.endpoint.asking import Stopped
from workers.endpoint.at_endpoint import AtEndpoint
from workers.model_cache import BadModel, ModelCache
from workers.recordings import fetched
from workers.reporter import Reporter
from workers.scratch import scratch
from workers.stage_files import Folders
from workers.stage_output import open_plain, read_stage_document

log = logging.getLogger(__name__)
app = celery_app("workers", fixups=[])


class _Stopped(Exception):
    """The stage was stopped before its process began."""


class _Files:
    """The files of a claimed run's model, and its recording, from the workbench, until `stop` is set."""

    def __init__(self, client: Client, key: StageKey, stop: threading.Event) -> None:
        self._client, self._key, self._stop = client, key, stop

    def file(self, path: str) -> Iterator[bytes]:
        return self._until_stopped(self._client.file(self._key, path))

    def recording(self) -> Iterator[bytes]:
        return self._until_stopped(self._client.recording(self._key))

    def _until_stopped(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if self._stop.is_set():
                raise _Stopped
            yield chunk


@app.task(name=GPU_TASK, bind=True)
def run_stage(self: Task, run_id: str, stage: str, attempt: int) -> None:
    """Run one attempt at one stage, if the workbench grants it."""
    config = WorkerConfig.from_environment()
    delivery = self.request.delivery_info or {}
    try:
        claim = Claim(
            run_id=run_id,
            stage=stage,  # type: ignore[arg-type]
            attempt=attempt,
            worker=self.request.hostname,
            gpu_class=gpu_class_of(delivery.get("routing_key", "")),
            claim_id=str(uuid4()),
        )
    except ValidationError as error:
        log.error("dropped a message that names no stage of a run: %s", error)
        return
    with logs.bound(request_id=self.request.id), Client(config) as client:
        try:
            document = client.claim(claim)
            key = StageKey(run_id=document.run_id, stage=document.stage, attempt=document.attempt)
            with logs.bound(**key.model_dump()), Reporter(config, key, client.claim_token) as reporter:
                outcome = _perform(config, client, document, key, reporter)
                if not reporter.superseded:
                    reporter.close()
                    _finish(client, outcome)
                    log.info("%s of run %s has ended", key.stage, key.run_id)
        except AttemptRefused as error:
            log.info("dropped %s of run %s, attempt %s: %s", stage, run_id, attempt, error)
        except (Rejected, Unreachable) as error:
            log.error("gave up %s of run %s, attempt %s: %s", stage, run_id, attempt, error)


def _perform(config: WorkerConfig, client: Client, document: StageInput, key: StageKey, reporter: Reporter) -> Outcome:
    """Run the stage and say how it ended; artifacts are uploaded when it is done."""
    cache = ModelCache(config.cache / "models", config.cache_bytes)
    identity: dict[str, Any] = key.model_dump()
    try:
        files = _Files(client, key, reporter.stop)
        with scratch() as directory, fetched(document.recording, files.recording) as recordings:
            with cache.model(document.model, files) as model_dir:
                folders = Folders(directory, model_dir, recordings)
                there = _at_endpoint(client, document, key, reporter, recordings)
                if there:
                    there.before_stage()
                    document = there.left_for(document)
                uuids = gpus_for(document.gpu_class, list(visible_gpus()))
                outer = shown(os.environ, document.gpu_class, uuids)
                with gpu_lock.held(uuids, reporter.stop.is_set):
                    ended, confinement = stage_process.run(config, document, folders, reporter, outer)
            outcome = _outcome(document, directory, ended, key, reporter)
            if outcome.result and isinstance(measured := outcome.result.get("environment"), dict):
                measured["confinement"] = confinement.model_dump()
            if outcome.result:
                outcome.result.pop("endpoint", None)  # the worker alone says what was measured there
            if outcome.result and there:
                there.after_stage(outcome.result)
            for artifact in outcome.artifacts:
                with open_plain(directory, f"kept/{artifact.sha256}") as kept:
                    outcome.receipts[artifact.sha256] = client.upload(key, kept, artifact.sha256)
            return outcome
    except (_Stopped, Stopped, gpu_lock.GaveUp):
        return _stopped(key, reporter)
    except (BadModel, Rejected, child.Unconfined, ValueError) as error:
        return Outcome(**identity, failure=StageFailure(sentence=f"The worker could not run {key.stage}: {error}"))
    except OSError as error:
        log.exception("stage %s of run %s", document.stage, document.run_id)
        return Outcome(**identity, died=f"the worker could not run it: {error.strerror or error}")


def _at_endpoint(
    client: Client, document: StageInput, key: StageKey, reporter: Reporter, recordings: Path | None
) -> AtEndpoint | None:
    """The workload's endpoint, at a stage beside which it is measured."""
    endpoint = document.workload.endpoint
    if endpoint is None or document.stage not in ENDPOINT_STAGES:
        return None
    try:
        access = client.endpoint(key)
    except Rejected as error:
        access = EndpointAccess(refused=str(error))

    def say(fraction: float, message: str) -> None:
        reporter.line(Progress(fraction=fraction, message=message).model_dump_json())

    return AtEndpoint(document, endpoint, access, reporter.stop, say, recordings or Path())


def _finish(client: Client, outcome: Outcome) -> None:
    """Post the outcome; a result that the workbench does not accept fails the run with its sentence."""
    try:
        client.finish(outcome)
    except Rejected as error:
        sentence = f"The {outcome.stage} stage's result was not accepted: {error}"
        identity = outcome.model_dump(include={"run_id", "stage", "attempt"})
        client.finish(Outcome(**identity, failure=StageFailure(sentence=sentence)))


def _outcome(document: StageInput, directory: Path, ended: child.Ended, key: StageKey, reporter: Reporter) -> Outcome:
    """Read the result, the failure or the artifacts that the child process wrote."""
    identity: dict[str, Any] = key.model_dump()
    if ended.why == "stopped":
        return _stopped(key, reporter)
    try:
        if ended.code == 0:
            kept = json.loads(read_stage_document(directory, "kept.json"))
            artifacts = [Artifact.model_validate(artifact) for artifact in kept]
            return Outcome(
                **identity, result=json.loads(read_stage_document(directory, "out.json")), artifacts=artifacts
            )
        if (directory / "out.json").exists():
            failure = StageFailure.model_validate_json(read_stage_document(directory, "out.json"))
            return Outcome(**identity, failure=failure)
    except (OSError, ValueError, ValidationError) as error:
        log.error("the stage's output cannot be read: %s", error)
    if ended.why == "timeout":
        sentence = f"The {document.stage} stage used up its time and was stopped."
        return Outcome(**identity, failure=StageFailure(sentence=sentence))
    return Outcome(**identity, died=stage_process.death(ended.code))


def _stopped(key: StageKey, reporter: Reporter) -> Outcome:
    """Why the stage was stopped; what is said of a superseded attempt is not sent."""
    died = "" if reporter.cancelled or reporter.handed_back else "it was superseded"
    return Outcome(**key.model_dump(), cancelled=reporter.cancelled, handed_back=reporter.handed_back, died=died)


@worker_ready.connect
def _say_hello(sender: Any, **_: Any) -> None:
    """While the worker lives, idle or not, tell the workbench which GPU classes it serves."""
    queues = sender.app.amqp.queues.consume_from
    classes = sorted(filter(None, map(gpu_class_of, queues)))
    if classes:
        bytecode.warn()
        for gpu_class in classes:
            try:
                gpus_for(gpu_class, list(visible_gpus()))
            except ValueError as error:
                log.critical("this worker ends: %s", error)
                raise WorkerShutdown(1) from error
        memory = memory_gib(classes, WorkerConfig.from_environment().stage_memory_bytes)
        hello = Hello(worker=sender.hostname, gpu_classes=classes, memory_gib=memory)
        threading.Thread(target=_keep_saying, args=(hello,), name="hello", daemon=True).start()


def _keep_saying(hello: Hello) -> None:
    silent = False
    while True:
        config = WorkerConfig.from_environment()
        try:
            with Client(config) as client:
                client.hello(hello)
            silent = False
        except (AttemptRefused, Rejected, Unreachable) as error:
            if not silent:
                log.warning("the workbench does not hear this worker yet: %s", error)
            silent = True
        threading.Event().wait(1 if silent else config.heartbeat_seconds)
