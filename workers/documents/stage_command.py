"""What the worker and the process of a run's stages say to each other, a JSON document a line."""

from workers.documents.base import Document
from workers.documents.stages import StageInput


class StageCommand(Document):
    """Run `module`'s stage in `folder`, a name below the working directory.

    `deadline` is when its time is over, by the machine's monotonic clock. `model` and `recordings` are folders.
    """

    module: str
    document: StageInput
    folder: str
    model: str
    recordings: str
    deadline: float


class StageEnded(Document):
    """The stage has written its files, and ended with this exit code."""

    ended: int
