"""The task on a GPU host: it claims a stage over the worker API, and then the run's next ones as long as it gets them.

All of them run in one child process.

    celery -A workers.gpu worker -Q gpu.cpu -c 1 -n gpu-cpu-0@%h

It knows no database and no secret but the worker token. A message is only a hint: what counts is whether the claim is
granted, and once the attempt is refused the message is dropped.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery import Task
from celery.exceptions import WorkerShutdown
from celery.signals import worker_process_init, worker_ready
from pydantic import ValidationError

from workers.config import WorkerConfig
from workers.documents.base import Artifact
from workers.documents.broker import GPU_TASK, gpu_class_of
from workers.documents.stages import Progress, StageFailure, StageInput
from workers.documents.worker_api import ENDPOINT_STAGES, Claim, EndpointAccess, Hello, Outcome, StageKey
from workers.host import bytecode, child, compile_ahead, gpu_lock, one_run, stage_process
from workers.host.child_environment import environment_with_gpus, template_environment
from workers.host.client import AttemptRefused, Client, Rejected, Unreachable
from workers.host.device_memory import gpus_for, memory_gib, visible_gpus
from workers.host.model_cache import BadModel, ModelCache, fetch_recording
from workers.host.reporter import Reporter
from workers.host.stage_files import Folders, stage_modules
from workers.host.stage_output import open_plain, read_stage_document
from workers.host.stage_process import RunProcess, StageEnd
from workers.host.template_process import Template
from workers.loadtest.endpoint.client import MeasurementStopped
from workers.loadtest.endpoint.session import EndpointSession
from workers.shared import logs
from workers.shared.delivery import celery_app, worker_is_stopping
from workers.shared.scratch import scratch
from workers.wording.stages import out_of_time

log = logging.getLogger(__name__)
app = celery_app("workers", fixups=[])
one_run.offer(app)

LATEST_SECONDS = 3600
"""A task begins no further stage later than this: a stage may take four hours, and the task LONGEST_STAGE_SECONDS."""
_template: Template | None = None


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
        log.error("message dropped, it names no stage of a run: %s", error)
        return
    began = time.monotonic()
    with logs.bound(request_id=self.request.id), closing(Client(config)) as client, ExitStack() as stack:
        try:
            directory = stack.enter_context(scratch(config.scratch))
        except OSError as error:
            log.error("no stage claimed, scratch folder unavailable: %s", error)
            return
        try:
            document: StageInput | None = client.claim(claim)
            run = _Run(config, client, directory, stack)
            while document is not None:
                document = _one_stage(run, document, claim, time.monotonic() - began < LATEST_SECONDS)
        except AttemptRefused as error:
            log.info("stage %s of run %s (attempt %s) dropped: %s", stage, run_id, attempt, error)
        except (Rejected, Unreachable) as error:
            log.error("stage %s of run %s (attempt %s) abandoned: %s", stage, run_id, attempt, error)


def _one_stage(run: "_Run", document: StageInput, claim: Claim, keep_going: bool) -> StageInput | None:
    """Run the stage and post how it ended; the next stage of the run, where it `keep_going` and that is granted."""
    key = StageKey(run_id=document.run_id, stage=document.stage, attempt=document.attempt)
    with logs.bound(**key.model_dump()), closing(Reporter(run.config, key, run.client.claim_token)) as reporter:
        outcome = _perform(run, document, key, reporter)
        if reporter.superseded:
            return None
        reporter.close()
        if outcome.result is not None and keep_going and not worker_is_stopping():
            outcome.next_claim_id = str(uuid4())
        following = _finish(run.client, outcome, claim.worker)
        log.info("stage %s of run %s ended", key.stage, key.run_id)
        return following


class _Run:
    """What the stages of one run share on this worker, while the stack lasts: its files, its GPUs and its process."""

    def __init__(self, config: WorkerConfig, client: Client, directory: Path, stack: ExitStack) -> None:
        self.config, self.client, self._directory, self._stack = config, client, directory, stack
        self._folders: Folders | None = None
        self._process: RunProcess | None = None
        self.starts_and_loads = 0.0

    def folders(self, document: StageInput, key: StageKey, reporter: Reporter) -> Folders:
        """The run's files, fetched for its first stage here. Raises BadModel, _Stopped and what the client raises."""
        if self._folders is None:
            files = _Files(self.client, key, reporter.stop)
            cache = ModelCache(self.config.cache / "models", self.config.cache_bytes)
            recordings = self._stack.enter_context(
                fetch_recording(document.recording, files.recording, self.config.scratch)
            )
            model = self._stack.enter_context(cache.model(document.model, files))
            self._folders = Folders(self._directory, model, recordings)
        return self._folders

    def process(self, document: StageInput, folders: Folders, reporter: Reporter) -> RunProcess:
        """The process of its stages, which has the run's GPUs for itself. Raises LockAbandoned and ValueError."""
        if self._process is None:
            uuids = gpus_for(document.gpu_class, list(visible_gpus()))
            outer = environment_with_gpus(os.environ, document.gpu_class, uuids)
            self._stack.enter_context(gpu_lock.hold_locks(uuids, reporter.stop.is_set))
            if compiling := compile_ahead.start(document, folders, self.config, outer):
                self._stack.callback(compiling.close)
            self._process = RunProcess(self.config, folders, outer, _template)
            self._stack.callback(self._process.close)
        return self._process


def _perform(run: _Run, document: StageInput, key: StageKey, reporter: Reporter) -> Outcome:
    """Run the stage and say how it ended; artifacts are uploaded when it is done."""
    identity: dict[str, Any] = key.model_dump()
    try:
        folders = run.folders(document, key, reporter)
        endpoint = _at_endpoint(run.client, document, key, reporter, folders.recordings)
        if endpoint:
            endpoint.before_stage()
            document = endpoint.left_for(document)
        end = run.process(document, folders, reporter).run(document, reporter)
        run.starts_and_loads += end.starts_and_loads
        outcome = _outcome(document, folders.scratch, end, key, reporter)
        if outcome.result and isinstance(measured := outcome.result.get("environment"), dict):
            measured["confinement"] = end.confinement.model_dump()
            measured["seconds_of_starts_and_loads"] = round(run.starts_and_loads, 3)
            run.starts_and_loads = 0.0
        if outcome.result:
            outcome.result.pop("endpoint", None)  # the worker alone says what was measured there
        if outcome.result and endpoint:
            endpoint.after_stage(outcome.result)
        for artifact in outcome.artifacts:
            with open_plain(folders.scratch, f"{key.stage}/saved/{artifact.sha256}") as kept:
                outcome.receipts[artifact.sha256] = run.client.upload(key, kept, artifact.sha256)
        return outcome
    except (_Stopped, MeasurementStopped, gpu_lock.LockAbandoned):
        return _stopped(key, reporter)
    except (BadModel, Rejected, child.ConfinementRefused, ValueError) as error:
        return Outcome(**identity, failure=StageFailure(sentence=f"The worker could not run {key.stage}: {error}"))
    except OSError as error:
        log.exception("stage %s of run %s failed", document.stage, document.run_id)
        return Outcome(**identity, died=f"the worker could not run it: {error.strerror or error}")


def _at_endpoint(
    client: Client, document: StageInput, key: StageKey, reporter: Reporter, recordings: Path | None
) -> EndpointSession | None:
    endpoint = document.workload.endpoint
    if endpoint is None or document.stage not in ENDPOINT_STAGES:
        return None
    try:
        access = client.endpoint(key)
    except Rejected as error:
        access = EndpointAccess(refused=str(error))

    def report_progress(fraction: float, message: str) -> None:
        reporter.line(Progress(fraction=fraction, message=message).model_dump_json())

    return EndpointSession(document, endpoint, access, reporter.stop, report_progress, recordings or Path())


def _finish(client: Client, outcome: Outcome, worker: str) -> StageInput | None:
    """Post the outcome; a result that the workbench does not accept fails the run with its sentence."""
    try:
        return client.finish(outcome, worker)
    except Rejected as error:
        sentence = f"The {outcome.stage} stage's result was not accepted: {error}"
        identity = outcome.model_dump(include={"run_id", "stage", "attempt"})
        return client.finish(Outcome(**identity, failure=StageFailure(sentence=sentence)), worker)


def _outcome(document: StageInput, scratch: Path, end: StageEnd, key: StageKey, reporter: Reporter) -> Outcome:
    identity: dict[str, Any] = key.model_dump()
    status, failure, output = end.status, end.failure, f"{key.stage}/out.json"
    if status.why == "stopped":
        return _stopped(key, reporter)
    try:
        if status.code == 0:
            kept = json.loads(read_stage_document(scratch, f"{key.stage}/saved.json"))
            artifacts = [Artifact.model_validate(artifact) for artifact in kept]
            return Outcome(**identity, result=json.loads(read_stage_document(scratch, output)), artifacts=artifacts)
        if failure is None and (scratch / output).exists():
            failure = StageFailure.model_validate_json(read_stage_document(scratch, output))
        if failure is not None:
            return Outcome(**identity, failure=failure)
    except (OSError, ValueError, ValidationError) as error:
        log.error("stage output unreadable: %s", error)
    if status.why == "timeout":
        return Outcome(**identity, failure=StageFailure(sentence=out_of_time(document)))
    return Outcome(**identity, died=stage_process.death(status.code))


def _stopped(key: StageKey, reporter: Reporter) -> Outcome:
    """Why the stage was stopped; what is said of a superseded attempt is not sent."""
    died = "" if reporter.cancelled or reporter.handed_back else "it was superseded"
    return Outcome(**key.model_dump(), cancelled=reporter.cancelled, handed_back=reporter.handed_back, died=died)


@worker_process_init.connect
def _start_template(**_: Any) -> None:
    """Import what stages import in the background, in a process that is forked for each run."""
    global _template
    config = WorkerConfig.from_environment()
    kept = {"TORCHINDUCTOR_CACHE_DIR": str(config.data / "compiler-check")}  # no stage can write there
    _template = Template(stage_modules(config.stage_package), template_environment(os.environ) | kept)


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
                log.critical("worker exits: %s", error)
                raise WorkerShutdown(1) from error
        memory = memory_gib(classes, WorkerConfig.from_environment().stage_memory_bytes)
        hello = Hello(worker=sender.hostname, gpu_classes=classes, memory_gib=memory)
        threading.Thread(target=_keep_saying, args=(hello,), name="hello", daemon=True).start()


def _keep_saying(hello: Hello) -> None:
    silent = False
    while True:
        config = WorkerConfig.from_environment()
        try:
            with closing(Client(config)) as client:
                client.hello(hello)
            silent = False
        except (AttemptRefused, Rejected, Unreachable) as error:
            if not silent:
                log.warning("workbench not reachable yet: %s", error)
            silent = True
        threading.Event().wait(1 if silent else config.heartbeat_seconds)
