"""What flash_blackwell should take on a B200, by a model: nothing here was measured.

    python -m benchmarks.flash_blackwell_predicted benchmarks/results/modelled/flash-blackwell.json

A tile takes as long as the busiest of five units of its SM: the tensor cores, the units of exponentials, the issue of
the softmax's instructions, what the SM draws from the L2, and what goes through its shared memory (written once by the
copy engine, read once for each half by the tensor cores). To that every tile adds what its own work cannot hide: the
first scores of a half, the last exponentials of a half, and the epilogue. The tiles of an SM, as `schedule` assigns
them, follow each other, and the busiest SM counts. The result is at least the time in which device memory moves q, k, v
and o once. Power, misses of the L2, waits between engines and rescaling are left out.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.blackwell_predicted import Assumptions, assumed, modelled, write
from kernels.attention.schedule import schedule
from kernels.blackwell.flash import KEYS, ROWS
from kernels.cases.attention import bench
from kernels.hardware import GPUS
from kernels.ops import AttentionCase
from kernels.registry import variant

VALUE = 2
"""Bytes of a value."""


@dataclass(frozen=True)
class Softmax:
    """What the model takes for granted of the softmax. Exponentials of an SM a clock: CUDA C++ Programming Guide,
    *Arithmetic Instructions*. Instructions of a warp that an SM issues in a clock: one in each of four partitions.
    Instructions for each score: counted in the machine code (multiply-add, exponential, addition, half a maximum, half
    a conversion), and some for moves and barriers.
    """

    exponentials_a_clock: int = 16
    instructions_a_clock: int = 4
    instructions_a_score: float = 4.5


def clocks(case: AttentionCase, row: int, of: Assumptions, softmax: Softmax) -> dict[str, float]:
    """Clocks of the tile whose first query is `row`, by what takes them."""
    seen = [blocks_seen(case, row + half * ROWS) for half in (0, 1)]
    scores, block = sum(seen) * ROWS * KEYS, KEYS * case.head_dim * VALUE
    return {
        "tensor cores": 4 * scores * case.head_dim / of.matrix_flop_per_clock,
        "exponentials": scores / softmax.exponentials_a_clock,
        "issue": scores * softmax.instructions_a_score / (32 * softmax.instructions_a_clock),
        "L2": (2 * max(seen) * block + 2 * ROWS * case.head_dim * VALUE) / of.l2_bytes,
        "shared memory": (2 * max(seen) + 3 * sum(seen)) * block / of.shared_bytes,
    }


def blocks_seen(case: AttentionCase, first: int) -> int:
    """Blocks of keys that the 128 queries from `first` on see."""
    last = first + ROWS - 1 + case.kv_len - case.q_len
    return -(-(min(case.kv_len, last + 1) if case.causal else case.kv_len) // KEYS)


def shown(case: AttentionCase, of: Assumptions, softmax: Softmax) -> float:
    """Clocks that a tile adds: the first scores and the last exponentials of a half, and the epilogue."""
    scores = 2 * ROWS * KEYS * case.head_dim / of.matrix_flop_per_clock
    return scores + ROWS * KEYS / softmax.exponentials_a_clock + of.epilogue_clocks_a_column * case.head_dim


def predicted(case: AttentionCase, of: Assumptions, softmax: Softmax) -> dict[str, Any]:
    """The modelled time of a case, in ms, and what bounds its tiles."""
    table = schedule(case, 2 * ROWS, KEYS, of.sms)
    busiest, bounds = 0.0, dict.fromkeys(clocks(case, 0, of, softmax), 0.0)
    for sm in range(of.sms):
        total = 0.0
        for _, _, row, is_one in table[:, sm]:
            if is_one:
                units = clocks(case, int(row), of, softmax)
                total += max(units.values()) + shown(case, of, softmax)
                bounds = {name: bounds[name] + units[name] for name in bounds}
        busiest = max(busiest, total)
    kernel_us, memory_us = (of.fill_clocks + busiest) / of.clock_ghz / 1e3, case.least_bytes / of.memory_tbps / 1e6
    us = max(kernel_us, memory_us) + of.launch_us
    tflops = case.flops / us / 1e6
    return {
        "case": case.model_dump(exclude_none=True), "ms": round(us / 1e3, 5), "tflops": round(tflops, 1),
        "share_of_rate": round(tflops / GPUS["b200"].bf16_tflops, 4),
        "bound": ", ".join(tied(bounds)) if kernel_us > memory_us else "device memory", "source": "modelled",
    }  # fmt: skip


def tied(units: dict[str, float]) -> Iterator[str]:
    """The units that take longest."""
    most = max(units.values())
    return (name for name, clocks in units.items() if clocks > 0.99 * most)


def cases() -> list[AttentionCase]:
    """The cases of `bench attention` that the variant serves."""
    flash = variant("flash_blackwell")
    every = [case for case in bench(cpu=False) if isinstance(case, AttentionCase)]
    return [case for case in every if flash.serves(case, GPUS["b200"]) is None]


def result() -> dict[str, Any]:
    """The document: assumptions and a row for each case."""
    of, softmax = assumed(), Softmax()
    rows = [predicted(case, of, softmax) for case in cases()]
    return modelled(asdict(of) | asdict(softmax), rows)


if __name__ == "__main__":
    write("flash_blackwell", result)
