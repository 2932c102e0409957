"""The document of a bring-up, which the workbench shows and other machines read. Imports without torch."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from kernels.hardware import Gpu

Name = Annotated[str, Field(max_length=400)]
NonNegative = Annotated[float, Field(ge=0)]
SmallCount = Annotated[int, Field(ge=0, lt=1_000_000)]
At = Annotated[AwareDatetime, Field(gt=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(2200, 1, 1, tzinfo=UTC))]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Machine(_Part):
    """The device, its libraries and the commit that it was measured with; `at` is when. Memory in GiB."""

    device: str = Field(min_length=1, max_length=200)
    gpu_class: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")
    gpu_uuid: Name = ""
    lease_id: Name = ""
    driver: Name = ""
    memory_gib: NonNegative | None = None
    versions: dict[str, Name]
    commit: Name = ""
    sources: Name = ""
    at: At


class MachineRates(_Part):
    """Measured rates in TB/s, and in TFLOP/s by the type of the numbers."""

    read_tbps: NonNegative
    copy_tbps: NonNegative
    matrix_tflops: dict[str, NonNegative]


class MachineCeilings(MachineRates):
    """The rates under settled clocks, those of single calls after pauses as `burst`, and an empty launch in µs."""

    launch_us: NonNegative
    burst: MachineRates | None = None


class MachineLimits(_Part):
    """Times in µs of a barrier of a block, of one of all SMs and of a copy of 4 bytes to another GPU; rates in TB/s of
    shared memory, all SMs together, and of copies to another GPU. `absent` says in a sentence why one is not known.
    """

    block_barrier_us: NonNegative | None = None
    grid_barrier_us: NonNegative | None = None
    shared_tbps: NonNegative | None = None
    exchange_tbps: NonNegative | None = None
    exchange_us: NonNegative | None = None
    absent: dict[str, Name] = {}


class VariantProofs(_Part):
    """How many cases of a variant passed the gate, failed it, or were refused by `serves`; a sentence a failure."""

    variant: Name
    op: Name
    passed: SmallCount = 0
    failed: SmallCount = 0
    refused: SmallCount = 0
    failures: dict[str, str] = {}
    refusal: str = ""


class Race(_Part):
    """The outcome of one case: the fastest variant of ours, the fastest peer, times in ms, and the roofline floor."""

    case: Name
    own: Name = ""
    own_ms: NonNegative | None = None
    peer: Name = ""
    peer_ms: NonNegative | None = None
    floor_ms: NonNegative | None = None

    @property
    def op(self) -> str:
        """The operation, which the case's key begins with."""
        return self.case.removeprefix("op=").partition(" ")[0]

    @property
    def best_ms(self) -> float | None:
        """The time of the fastest variant; None when none passed."""
        return min((ms for ms in (self.own_ms, self.peer_ms) if ms is not None), default=None)


class Gap(_Part):
    """An op whose time can shrink by `ms` a request, to its bound. `kind`: `missing` (no variant passed; the floor),
    `behind` (a peer is faster; its time) or `above` (the floor). Times in ms; `calls` in one request.
    """

    model: Name
    case: Name
    calls: NonNegative
    kind: Literal["missing", "behind", "above"]
    ms: NonNegative
    variant: Name
    call_ms: NonNegative
    bound_ms: NonNegative


class ModelCost(_Part):
    """One request of a catalogue model: the sum of its ops' best times, and of their floors, in ms."""

    model: Name
    prompt: SmallCount
    tokens: SmallCount
    ms: NonNegative
    floor_ms: NonNegative
    gaps: list[Gap] = Field(max_length=1000)


class BringUp(_Part):
    """Everything that a bring-up found: `stopped`, a sentence for each step that ended or was late, and `left_out`,
    those there was no time for.
    """

    version: Literal[1] = 1
    environment: Machine
    entry: Gpu
    ceilings: MachineCeilings
    limits: MachineLimits | None = None
    quick: bool
    stranger: bool
    minutes: NonNegative  # of all calls with the folder together
    proofs: list[VariantProofs] = Field(max_length=1000)
    races: list[Race] = Field(max_length=2000)
    models: list[ModelCost] = Field(max_length=100)
    next_steps: list[str] = Field(max_length=100)
    stopped: dict[str, str]
    left_out: list[str] = Field(max_length=10_000)
