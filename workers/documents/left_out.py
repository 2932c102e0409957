"""What a stage leaves out, because trying it ended the stage's process."""

from pydantic import Field

from workers.documents.base import Document

NOTE_FILE = "trying"
"""The file in a stage's folder that holds what the stage is trying, as JSON up to the first zero byte; empty: nothing.
"""
NOTE_BYTES = 16_384
HUNG_FILE = "hung"
"""The file that says where the process stood when what it tried took too long; empty: it did not."""


class LeftOut(Document):
    """Something that a stage tries: a variant with its params, or a plan.

    `key` is how the stage finds it again, `label` how people call it. `reason` says how the process ended, as the end
    of a sentence; it is "" as long as the stage does not know. `seconds` is how long it may take.
    """

    key: str = Field(min_length=1, max_length=4000)
    label: str = Field(max_length=1000)
    reason: str = Field(default="", max_length=500)
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        return f"Left out, since it ended the stage's process: {self.reason}."
