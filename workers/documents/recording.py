"""A recording of traffic that was handed in: which file it is, and what its lines hold."""

from pydantic import Field

from workers.documents.base import Document
from workers.documents.traffic import Traffic


class RecordingFacts(Document):
    """What the lines of a recording hold: `seconds` from the first arrival to the last, lengths in tokens."""

    requests: int
    seconds: float
    longest_prompt: int
    longest_output: int
    notes: list[str] = Field(default=[], description="sentences: how fields were read, what was left out")

    @property
    def words(self) -> str:
        """Such as `1,200 requests over 600 s`."""
        return f"{self.requests:,} request{'s' if self.requests != 1 else ''} over {self.seconds:,.0f} s"


class Recording(RecordingFacts):
    """A recording of an organisation; a workload names it by `sha256`."""

    name: str
    sha256: str
    size: int = Field(description="bytes")

    @property
    def words(self) -> str:
        """Such as `calls.csv: 1,200 requests over 600 s`."""
        return f"{self.name}: {super().words}"

    @property
    def sentence(self) -> str:
        how = "Every load replays it from its first line on, for as many seconds as the load lasts."
        return " ".join([f"{self.words}.", *self.notes, how, f"SHA-256 {self.sha256[:16]}…"])


def longest(traffic: Traffic, recording: RecordingFacts | None) -> tuple[int, int]:
    """The longest prompt and the longest answer of the traffic, in tokens; recorded ones are those of `recording`."""
    recorded = (recording.longest_prompt, recording.longest_output) if recording else (0, 0)
    prompt = traffic.prompt_lengths.longest if traffic.prompt_lengths else traffic.prompt_tokens
    return prompt or recorded[0], traffic.longest_output or recorded[1]
