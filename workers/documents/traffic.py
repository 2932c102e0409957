"""Traffic: how long requests are, when they arrive, and how their users behave. Definitions: `docs/method.md`."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from workers.documents.base import Document

LONGEST_PROMPT = 131_072
LONGEST_OUTPUT = 32_768
MAX_USERS = 1024
MIN_RATE = 1e-9
"""The least rate or speed, so that times remain finite; a search divides it by 64."""


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"should be a number, not {str(value).lower()}")
    return value


Count = Annotated[int, BeforeValidator(_no_flag)]
Number = Annotated[float, BeforeValidator(_no_flag)]
"""Numbers for which `true` and YAML's `yes` are not 1."""


class FixedLength(Document):
    """Every request has the same length, in tokens."""

    kind: Literal["fixed"] = "fixed"
    tokens: Count = Field(ge=1, le=LONGEST_PROMPT)

    @property
    def longest(self) -> int:
        return self.tokens


class UniformLength(Document):
    """Each length from `low` to `high` is equally likely, in tokens."""

    kind: Literal["uniform"] = "uniform"
    low: Count = Field(ge=1, le=LONGEST_PROMPT)
    high: Count = Field(ge=1, le=LONGEST_PROMPT)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low: {self.low} tokens are more than high, {self.high}")
        return self

    @property
    def longest(self) -> int:
        return self.high


class LogNormalLength(Document):
    """ln(length) is normal around ln(`median`) with standard deviation `sigma`; longer ones are cut to `most`."""

    kind: Literal["log-normal"] = "log-normal"
    median: Count = Field(ge=1, le=LONGEST_PROMPT, description="half of the requests are shorter, in tokens")
    sigma: Number = Field(gt=0, le=3, description="standard deviation of the logarithm; 1 is a wide spread")
    most: Count = Field(ge=1, le=LONGEST_PROMPT, description="longer requests are cut to this many tokens")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.median > self.most:
            raise ValueError(f"median: {self.median} tokens are more than most, {self.most}")
        return self

    @property
    def longest(self) -> int:
        return self.most


class RecordedLength(Document):
    """Each request has the length of its line in the recording, `traffic.recording`."""

    kind: Literal["recorded"] = "recorded"

    @property
    def longest(self) -> int | None:
        return None


Length = Annotated[FixedLength | UniformLength | LogNormalLength | RecordedLength, Field(discriminator="kind")]


class ClosedLoop(Document):
    """`traffic.concurrency` users; each sends its next request `think_s` after its last one was answered."""

    kind: Literal["closed"] = "closed"
    think_s: Number = Field(default=0, ge=0, le=3600, description="mean pause of a user, exponentially distributed")


RATE = "requests per second; where a run searches the highest load, the most that it tries"


class Poisson(Document):
    """Requests arrive independently of each other and of the answers, `rate` a second on average."""

    kind: Literal["poisson"] = "poisson"
    rate: Number = Field(ge=MIN_RATE, le=100_000, description=RATE)


class Gamma(Document):
    """As Poisson, with gaps from a gamma distribution: burstier above a `cv` of 1, more regular below."""

    kind: Literal["gamma"] = "gamma"
    rate: Number = Field(ge=MIN_RATE, le=100_000, description=RATE)
    cv: Number = Field(ge=0.01, le=20, description="standard deviation of the gaps over their mean; 1 is Poisson")


class RecordedArrivals(Document):
    """Requests arrive as in the recording, `traffic.recording`, `speed` times as fast; its first line at once."""

    kind: Literal["recorded"] = "recorded"
    speed: Number = Field(
        default=1,
        ge=MIN_RATE,
        le=1000,
        description="times as fast as recorded; where a run searches the highest load, the most that it tries",
    )


Arrivals = Annotated[ClosedLoop | Poisson | Gamma | RecordedArrivals, Field(discriminator="kind")]


class Sampling(Document):
    """How the next token is drawn; greedy unless stated."""

    temperature: Number = Field(default=0, ge=0, le=2)
    top_p: Number = Field(default=1, gt=0, le=1)
    top_k: Count | None = Field(default=None, ge=1, le=1_000_000)


class Cancellations(Document):
    """Users who go away: a share of the requests is closed after so many of its tokens."""

    share: Number = Field(gt=0, le=1)
    after_tokens: Count = Field(default=16, ge=1, le=LONGEST_OUTPUT)


class Traffic(Document):
    """How long requests are, when they arrive, and how their users behave.

    `prompt_tokens`, `output_tokens`, `batch` and `concurrency` describe equal requests in a closed loop, which is what
    a run of the workbench verifies. The other fields are for its load stage and for `workbench measure`; see
    `only_under_load`.
    """

    prompt_tokens: Count = Field(default=128, ge=1, le=LONGEST_PROMPT)
    output_tokens: Count = Field(default=64, ge=1, le=LONGEST_OUTPUT)
    batch: Count = Field(default=1, ge=1, le=1024, description="requests served together in one batch")
    concurrency: Count = Field(
        default=1,
        ge=1,
        le=MAX_USERS,
        description="closed-loop clients that wait on one GPU; each sends its next request when the last is answered",
    )
    prompt_lengths: Length | None = Field(default=None, description="in place of prompt_tokens")
    output_lengths: Length | None = Field(default=None, description="in place of output_tokens")
    shared_prefix: Count = Field(default=0, ge=0, le=LONGEST_PROMPT, description="tokens that all prompts begin with")
    arrivals: Arrivals | None = Field(default=None, description="a closed loop without pauses unless stated")
    recording: str = Field(
        default="",
        max_length=1000,
        description="CSV or JSON Lines of arrival_s, prompt_tokens, output_tokens and conversation: a path, or in a "
        "workload the SHA-256 of a recording that was handed in",
    )
    end_of_text: bool = Field(default=False, description="whether an answer may end before its length")
    sampling: Sampling | None = None
    cancellations: Cancellations | None = None
    time_out_s: Number = Field(default=120, ge=0.001, le=3600, description="a request that takes longer has failed")
    seed: Count = Field(default=0, ge=0, lt=2**32)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        recorded = [
            name
            for name in ("prompt_lengths", "output_lengths", "arrivals")
            if getattr(getattr(self, name), "kind", "") == "recorded"
        ]
        if recorded and not self.recording:
            raise ValueError(f"recording: {recorded[0]} are recorded, but no recording is named")
        if self.recording and not recorded:
            raise ValueError("recording: nothing is taken from it; make arrivals or lengths recorded")
        for name, longest in (("prompt_lengths", LONGEST_PROMPT), ("output_lengths", LONGEST_OUTPUT)):
            stated = getattr(self, name)
            if stated and stated.longest and stated.longest > longest:
                raise ValueError(f"{name}: {stated.longest:,} tokens are more than {longest:,}")
        shortest = self.shortest_prompt
        if shortest is not None and self.shared_prefix > shortest:
            raise ValueError(
                f"shared_prefix: {self.shared_prefix} tokens are more than the shortest prompt has, {shortest}"
            )
        return self

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive whether or not the earlier ones are answered."""
        return not isinstance(self.arrivals or ClosedLoop(), ClosedLoop)

    @property
    def rate(self) -> float | None:
        """Requests per second of an open loop, as drawn; None in a closed loop and where arrivals are recorded."""
        return self.arrivals.rate if isinstance(self.arrivals, Poisson | Gamma) else None

    @property
    def speed(self) -> float | None:
        """How many times as fast as recorded requests arrive; None where arrivals are not recorded."""
        return self.arrivals.speed if isinstance(self.arrivals, RecordedArrivals) else None

    @property
    def shortest_prompt(self) -> int | None:
        """The fewest tokens that every prompt is sure to have; None where lengths are log-normal or recorded."""
        match self.prompt_lengths:
            case None:
                return self.prompt_tokens
            case FixedLength():
                return self.prompt_lengths.tokens
            case UniformLength():
                return self.prompt_lengths.low
        return None

    @property
    def longest_output(self) -> int | None:
        """The most tokens that an answer may have; None where its length is recorded."""
        return self.output_lengths.longest if self.output_lengths else self.output_tokens

    @property
    def only_under_load(self) -> str:
        """The first field, as stated, that verify does not serve; the load stage and `workbench measure` do."""
        served, plain = {"prompt_tokens", "output_tokens", "batch", "concurrency", "seed"}, Traffic()
        names = (name for name in Traffic.model_fields if name not in served)
        return next((name for name in names if getattr(self, name) != getattr(plain, name)), "")
