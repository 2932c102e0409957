"""What gemm_blackwell should take on a B200, by a model: nothing here was measured.

    python -m benchmarks.blackwell_predicted benchmarks/results/modelled/gemm-blackwell.json

A tile takes its stages one after the other. A stage takes the longest of three: the tensor cores' work, what the SM
draws from the L2, and what goes through its shared memory (written once by the copy engine, read once by the tensor
cores). Of a pair each SM draws its own rows of x and half of w. What is sent to both is drawn once. The tiles of the
busiest SM follow each other; an epilogue shows at the end, and after each tile where TMEM has room for one accumulator
only. The result is at least the time in which device memory moves x, w and y once. Power, misses of the L2 and waits
between engines are left out.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernels.blackwell.gemm_tiles import (
    ROW_BYTES,
    ROWS,
    SCALE_TILE_BYTES,
    STAGE_VALUES,
    Tile,
    sizes,
    space,
    tile_of,
)
from kernels.cases.linear import bench
from kernels.hardware import GPUS
from kernels.ops import GroupedCase, LinearCase
from kernels.ops.base import MATRIX_RATE
from kernels.registry import variant

LEAST_ROWS = 1024
"""Rows from which cases of `bench gemm` are predicted: fewer leave most SMs without a tile."""


@dataclass(frozen=True)
class Assumptions:
    """What the model takes for granted of a B200. Rates and SMs are the datasheet's; the clock is the one at which they
    fit together. What is not published is assumed: `l2_bytes` and `shared_bytes` of an SM a clock (64 is the A100's,
    NVIDIA A100 whitepaper; 128 is that of all generations since Volta, by the CUDA C++ Best Practices Guide's 32 banks
    of 4 bytes), the clocks of an epilogue for each column of 128 rows, of the first copy's way, and an empty launch, as
    on an H200.
    """

    sms: int
    matrix_flop_per_clock: int
    clock_ghz: float
    memory_tbps: float
    l2_bytes: int = 64
    shared_bytes: int = 128
    epilogue_clocks_a_column: float = 4.0
    fill_clocks: float = 1500.0
    launch_us: float = 3.0


def assumed() -> Assumptions:
    gpu = GPUS["b200"]
    clock = gpu.bf16_tflops * 1e3 / (gpu.sms * gpu.matrix_flop_per_clock)
    return Assumptions(gpu.sms, gpu.matrix_flop_per_clock, round(clock, 3), gpu.memory_tbps)


def stage_clocks(tile: Tile, rate: float, of: Assumptions) -> dict[str, float]:
    """Clocks of a stage by what takes them."""
    flop = 2 * ROWS * tile.columns * STAGE_VALUES[tile.kind]
    operands = (ROWS + tile.columns // tile.blocks) * ROW_BYTES
    from_the_other = tile.columns // ROWS * tile.scale_tiles * SCALE_TILE_BYTES / 2 if tile.sends_scales else 0
    return {
        "tensor cores": flop / (of.matrix_flop_per_clock * rate),
        "L2": (tile.stage_bytes - from_the_other) / of.l2_bytes,
        "shared memory": (tile.stage_bytes + operands) / of.shared_bytes,
    }


def predicted(case: LinearCase, tile: Tile, of: Assumptions) -> dict[str, Any]:
    """The modelled time of a case with a tile, in ms, and what bounds it."""
    shape = sizes(case, tile, case.m)
    tiles = shape["row_tiles"] * shape["column_tiles"]
    return timed(case, tile, (tiles, shape["steps"]), case.least_bytes, MATRIX_RATE[case.weights], of)


def timed(
    case: LinearCase | GroupedCase, tile: Tile, work: tuple[int, int], least_bytes: float, rate: float, of: Assumptions
) -> dict[str, Any]:
    """The row of a case whose `work` is so many tiles of all clusters, of so many stages each. `rate` is that of the
    tensor cores, of bf16's.
    """
    tiles, steps = work
    clocks = stage_clocks(tile, rate, of)
    bound = max(clocks, key=lambda unit: clocks[unit])
    rounds = -(-tiles // (of.sms // tile.blocks))
    shown = 1 if tile.accumulators == 2 else rounds
    epilogue = of.epilogue_clocks_a_column * tile.columns * shown
    total = of.fill_clocks + rounds * steps * clocks[bound] + epilogue
    kernel_us, memory_us = total / of.clock_ghz / 1e3, least_bytes / of.memory_tbps / 1e6
    us = max(kernel_us, memory_us) + of.launch_us
    tflops = case.flops / us / 1e6
    return {
        "case": case.model_dump(exclude_none=True), "kind": tile.kind, "columns": tile.columns, "stages": tile.stages,
        "pair": tile.pair, "ms": round(us / 1e3, 5), "tflops": round(tflops, 1),
        "share_of_rate": round(tflops / (rate * GPUS["b200"].bf16_tflops), 4),
        "bound": bound if kernel_us > memory_us else "device memory", "source": "modelled",
    }  # fmt: skip


def cases() -> list[LinearCase]:
    """The large products of `bench gemm` that a variant for sm_100 serves."""
    mine = [variant(name) for name in ("gemm_blackwell", "gemm_blackwell_scaled")]
    large = [case for case in bench(cpu=False) if isinstance(case, LinearCase) and case.m >= LEAST_ROWS]
    return [case for case in large if any(ours.serves(case, GPUS["b200"]) is None for ours in mine)]


def result() -> dict[str, Any]:
    """The document: assumptions, and for each case the tile that the model finds fastest."""
    of = assumed()
    tried = [[predicted(case, tile_of(case, params), of) for params in space(case)] for case in cases()]
    return modelled(asdict(of), [min(rows, key=lambda row: row["ms"]) for rows in tried])


def modelled(assumptions: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The document of what a model predicts for a B200."""
    return {"source": "modelled", "gpu": "b200", "commit": "none", "assumptions": assumptions, "rows": rows}


def write(what: str, result: Callable[[], dict[str, Any]]) -> None:
    """The command line: writes the result to the file that it names."""
    parser = argparse.ArgumentParser(description=f"Modelled times of {what} on a B200.")
    parser.add_argument("json", type=Path)
    path = parser.parse_args().json
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result(), indent=1) + "\n")


if __name__ == "__main__":
    write("gemm_blackwell", result)
