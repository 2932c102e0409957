"""What the worker and the process of a run's stages say to each other, a JSON document a line."""

from workers.documents.base import Document
from workers.documents.stages import StageInput


class StageCommand(Document):
    """Run `module`'s stage in `folder`, a name below the working directory.

    By the machine's monotonic clock `deadline` is when its time is over, and `asked_at` when its process was started;
    None where it ran already. `model` and `recordings` are folders.
    """

    module: str
    document: StageInput
    folder: str
    model: str
    recordings: str
    deadline: float
    asked_at: float | None


class StageEnded(Document):
    """The stage has written its files, and ended with this exit code. Starts of processes and loads of weights took
    `starts_and_loads` seconds of it.
    """

    ended: int
    starts_and_loads: float
