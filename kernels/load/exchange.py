"""One request as it was sent and answered: its times, its tokens, and how it ended."""

from dataclasses import dataclass, field
from typing import Any

from kernels.load.planned import PlannedRequest
from kernels.measure.latency import ServedBatch

CANCELLED = "cancelled"
"""How a request ends when its user went away as planned."""


@dataclass
class Exchange:
    """One request; times are nanoseconds of the monotonic clock, 0 where they did not come to be.

    `intended_ns`: when its user meant to send it. `begun_ns`: when the generator began with it; the difference is the
    generator's own lag. `sent_ns`: when it was written to the socket, behind connecting. `chunk_ns`: when each event
    that may hold a token was read, `with_text` whether it held text. `ended`: the server's finish reason, `cancelled`,
    or "" where it failed; then `error` is the kind of failure and `sentence` says it. `prompt_ids` and `ids`: the token
    ids of the prompt and of the answer, where the server was asked for them and gave them.
    """

    planned: PlannedRequest
    intended_ns: int
    begun_ns: int = 0
    sent_ns: int = 0
    first_byte_ns: int = 0
    end_ns: int = 0
    chunk_ns: list[int] = field(default_factory=list)
    with_text: list[bool] = field(default_factory=list)
    status: int = 0
    ended: str = ""
    error: str = ""
    sentence: str = ""
    prompt_ids: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    counted_prompt: int | None = None
    counted_output: int | None = None

    def fail(self, kind: str, sentence: str, now_ns: int) -> None:
        """Ends the request as failed; the first failure stays."""
        if not self.error and not self.ended:
            self.error, self.sentence = kind, sentence
        self.end_ns = self.end_ns or now_ns

    @property
    def tokens(self) -> int:
        """Tokens of the answer: as the server counted them, otherwise one for each event that held a token."""
        return len(self.event_ns) if self.counted_output is None else self.counted_output

    @property
    def event_ns(self) -> list[int]:
        """When each event that held a token was read. Servers differ in whether one without text is a token (half a
        character) or none (a sign of life): it counts where the server counts one token for each event.
        """
        if self.counted_output == len(self.chunk_ns):
            return self.chunk_ns
        texts = [at for at, text in zip(self.chunk_ns, self.with_text, strict=True) if text]
        return texts or self.chunk_ns[: self.counted_output or 0]

    @property
    def several_in_an_event(self) -> bool:
        """Whether the server sent more tokens than events."""
        return self.counted_output is not None and self.ended != CANCELLED and self.counted_output > len(self.event_ns)

    @property
    def token_ns(self) -> list[int]:
        """When each token could be read, those of an event with its last: TTF-N is never too small, TPOT exact."""
        events = self.event_ns
        missing = self.tokens - len(events) if self.several_in_an_event and events else 0
        return events + events[-1:] * missing

    def served(self) -> ServedBatch | None:
        """The request for `kernels.measure.latency`; None when it failed or gave no token."""
        times = self.token_ns
        if self.error or not times:
            return None
        return ServedBatch(self.intended_ns, self.sent_ns, tuple(times), requests=1, tokens=len(times))

    def record(self) -> dict[str, Any]:
        """The request as one line of JSON, times in nanoseconds."""
        return {
            "index": self.planned.index,
            "conversation": self.planned.conversation,
            "prompt_tokens": self.planned.prompt_tokens,
            "output_tokens": self.planned.output_tokens,
            "intended_ns": self.intended_ns,
            "begun_ns": self.begun_ns,
            "sent_ns": self.sent_ns,
            "first_byte_ns": self.first_byte_ns,
            "token_ns": self.token_ns,
            "end_ns": self.end_ns,
            "status": self.status,
            "ended": self.ended,
            "error": self.error,
            "counted_prompt_tokens": self.counted_prompt,
            "counted_output_tokens": self.counted_output,
        }
