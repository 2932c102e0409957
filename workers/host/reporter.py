"""A thread that sends heartbeats and progress to the workbench while a stage runs, and reads the answers."""

import logging
import threading
import time
from collections import deque
from contextlib import closing

from pydantic import ValidationError

from workers.config import WorkerConfig
from workers.documents.stages import Progress
from workers.documents.worker_api import ProgressReport, StageKey
from workers.host.client import AttemptRefused, Client, Rejected, Unreachable
from workers.host.threads import inheriting
from workers.shared.delivery import worker_is_stopping

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5
BACKLOG = 200


class Reporter:
    """Sends a heartbeat every `heartbeat_seconds`, and progress soon after it was said.

    `stop` is set when the stage must end: `cancelled` when a person cancelled, `superseded` when the attempt is no
    longer this worker's, `handed_back` when the worker itself is stopping. While the workbench cannot be reached the
    oldest lines beyond BACKLOG are dropped; the stage itself never waits.
    """

    def __init__(self, config: WorkerConfig, key: StageKey, claim_token: str) -> None:
        self.stop = threading.Event()
        self.cancelled = False
        self.superseded = False
        self.handed_back = False
        self._config = config
        self._key = key
        self._claim_token = claim_token
        self._lines: deque[Progress] = deque(maxlen=BACKLOG)
        self._done = threading.Event()
        self._thread = threading.Thread(target=inheriting(self._run), name="reporter", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._done.set()
        self._thread.join()

    def line(self, text: str) -> None:
        """Take one line of the stage's standard output; what is not a Progress document goes to the log."""
        try:
            self._lines.append(Progress.model_validate_json(text))
        except ValidationError:
            log.info("stage output: %s", text.rstrip())

    def _run(self) -> None:
        with closing(Client(self._config)) as client:
            client.claim_token = self._claim_token
            last_sent = time.monotonic()
            while not self._done.wait(FLUSH_SECONDS):
                if worker_is_stopping() and not self.stop.is_set():
                    self.handed_back = True
                    self.stop.set()
                due = time.monotonic() - last_sent >= self._config.heartbeat_seconds
                if (self._lines or due) and self._send(client):
                    last_sent = time.monotonic()
            if self._lines:
                self._send(client)

    def _send(self, client: Client) -> bool:
        """Makes one call: progress if there is any, else a heartbeat. Returns whether the workbench answered."""
        lines = list(self._lines)
        try:
            if lines:
                answer = client.progress(ProgressReport(**self._key.model_dump(), lines=lines))
            else:
                answer = client.heartbeat(self._key)
        except Unreachable as error:
            log.warning("heartbeat failed: %s", error)
            return False
        except Rejected as error:
            log.warning("progress rejected by the workbench: %s", error)
            self._drop_sent(lines)
            return False
        except AttemptRefused as error:
            log.warning("attempt no longer assigned to this worker: %s", error)
            self.superseded = True
            self.stop.set()
            return True
        self._drop_sent(lines)
        if answer.cancel:
            self.cancelled = True
            self.stop.set()
        return True

    def _drop_sent(self, lines: list[Progress]) -> None:
        sent = {id(line) for line in lines}
        while self._lines and id(self._lines[0]) in sent:
            self._lines.popleft()
