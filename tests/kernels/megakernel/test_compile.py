"""decode.cu compiles for Hopper without spilling a register, by the compiler that a launch uses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.megakernel.host import device
from kernels.megakernel.program import build_program
from kernels.megakernel.program.layout import Layout, default_layout
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES, programs, shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.program.weights import FORMATS
from kernels.megakernel.proof.validate import check_programs
from kernels.model_files import catalogue
from tests.kernels.compiling import Resources, compile_log, resources
from tests.kernels.megakernel.published import CONFIGS

DECODE = device.SOURCES / "decode.cu"
CODE_PATHS = ("QKV_BIAS", "QK_NORM", "PAIRS", "KEYS_IN_RING", "ATTENDED_GROUPS", "PROLOGUE_CHUNKS", "COPIES", "SINKS")
"""Macros that choose what the kernel does, beside those that are sizes."""


def constants(name: str, **layout: Any) -> dict:
    shape = replace(shape_of(CONFIGS[name]), norm_eps=1e-5)
    asked = {key: layout.pop(key) for key in ("batch", "capacity", "weights", "sms") if key in layout}
    return device.defines(build_program(shape, replace(default_layout(shape, **asked), **layout)), device.Tuning())


BUILDS: list[tuple[str, dict[str, Any]]] = [
    ("llama-3.2-1b", {"sliced": True}),
    ("llama-3.2-1b", {"capacity": 192}),
    ("llama-3.2-1b", {"capacity": 16384}),
    ("llama-3.2-1b", {"batch": 3, "capacity": 4096}),
    ("llama-3.1-8b", {"weights": "int8", "batch": 8}),
    ("llama-3.1-8b", {"weights": "int4_zero", "batch": 8}),
    ("qwen3-0.6b", {"weights": "int4_minimum", "capacity": 192}),
    ("qwen2.5-7b", {"weights": "fp8", "batch": 5, "capacity": 16384}),
    ("llama-3.1-8b", {"weights": "fp8_layers", "batch": 8, "capacity": 4096}),
    ("llama-3.2-1b", {"weights": "nvfp4", "batch": 8}),
    ("qwen3-30b-a3b", {"batch": 8, "capacity": 4096}),
    ("olmoe-1b-7b", {"capacity": 192}),
    ("gpt-oss-20b", {"capacity": 192}),
    ("gpt-oss-20b", {"batch": 8, "capacity": 4096}),
    ("gpt-oss-20b", {"capacity": 192, "weights": "mxfp4"}),
    ("gpt-oss-20b", {"batch": 8, "capacity": 4096, "weights": "mxfp4"}),
]
"""Every format of weights; int4 by the two that do more with each code. Experts behind short and long contexts."""


def paths(made: dict) -> set[tuple[str, int]]:
    return {(path, made[path]) for path in CODE_PATHS}


@pytest.fixture(scope="module")
def taken() -> set[tuple[str, int]]:
    """The code paths that BUILDS take."""
    return set().union(*(paths(constants(name, **layout)) for name, layout in BUILDS))


@pytest.mark.parametrize(
    ("name", "layout"),
    BUILDS,
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value.values())),
)
def test_nothing_is_spilled(name: str, layout: dict[str, Any]) -> None:
    assert_fits(compile_log(DECODE, constants(name, **layout)))


def assert_fits(log: str) -> None:
    result = resources(log)
    assert result == Resources(stack=0, spill_stores=0, spill_loads=0, registers=result.registers)
    assert result.registers * device.THREADS <= 65536


@pytest.mark.parametrize(
    ("name", "ranks", "layout", "tuning"),
    [
        ("llama-3.1-70b", 4, {"weights": "int8"}, device.Tuning()),
        ("qwen2.5-1.5b", 2, {"batch": 2}, device.Tuning()),
        ("qwen3-30b-a3b", 2, {"batch": 8}, device.Tuning()),
        ("qwen2.5-1.5b", 2, {}, device.Tuning(debug=True, trace=True)),
    ],
    ids=["four GPUs", "two GPUs", "experts", "notes words and times"],
)
def test_nothing_is_spilled_on_several_gpus(name, ranks, layout, tuning):
    """One kernel for all ranks: they differ in their programs and parameters."""
    shape = shard_of(shape_of(catalogue.entry(name)[0]), ranks)
    first, *others = (
        device.defines(made, tuning)
        for made in programs(shape, default_layout(shape, **layout, tensor_parallel_size=ranks))
    )
    assert all(other == first for other in others)
    assert_fits(compile_log(DECODE, first))


@pytest.mark.parametrize(
    ("name", "capacity", "through"), [("llama-3.2-1b", 4096, 1), ("llama-3.2-1b", 192, 0), ("voice-agent", 4096, 0)]
)
def test_splits_with_rows_of_a_line_or_more_come_through_the_ring(name: str, capacity: int, through: int) -> None:
    assert constants(name, capacity=capacity)["KEYS_IN_RING"] == through


@pytest.mark.parametrize(("capacity", "taken"), [(192, 3), (4096, 2)])
def test_no_chunks_are_taken_ahead_where_the_residual_is_sliced(capacity: int, taken: int) -> None:
    """Slices come by other code, which takes none; a product would miss those that it believes taken."""
    assert constants("llama-3.2-1b", capacity=capacity)["PROLOGUE_CHUNKS"] == taken
    sliced = constants("llama-3.2-1b", capacity=capacity, sliced=True)
    assert sliced["SLICE"]
    assert not sliced["PROLOGUE_CHUNKS"]
    with pytest.raises(RuntimeError, match="not slices"):
        compile_log(DECODE, sliced | {"PROLOGUE_CHUNKS": taken})


def test_the_launch_parameters_are_a_multiple_of_a_tensor_maps_alignment() -> None:
    for params in map(device.params_of, TENSOR_PARALLEL_SIZES):
        assert params.itemsize % device.MAP_ALIGNMENT == 0
        assert all(params.fields[name][1] % device.MAP_ALIGNMENT == 0 for name in device.MAPS)


@pytest.mark.parametrize("weights", [*FORMATS, "mxfp4"])
def test_the_unit_that_a_gpu_test_runs_compiles(weights: str) -> None:
    unit, name = Path(__file__).with_name("unit.cu"), "gpt-oss-20b" if weights == "mxfp4" else "llama-3.2-1b"
    assert resources(compile_log(unit, constants(name, weights=weights, batch=2))).spill_stores == 0


def test_an_error_in_the_source_and_an_input_that_leaves_no_room_are_told() -> None:
    with pytest.raises(RuntimeError, match="error"):
        compile_log(DECODE, constants("llama-3.2-1b") | {"WARPS": "nonsense"})
    shape = replace(shape_of(CONFIGS["llama-3.1-8b"]), layers=1)
    with pytest.raises(ValueError, match="leaves no room for the weight ring"):
        device.defines(build_program(shape, Layout(batch=8)), device.Tuning())


@pytest.mark.parametrize("name", CONFIGS)
def test_every_ring_that_is_built_fits_by_code_paths_that_are_compiled(name: str, taken: set) -> None:
    """With its residual in slices every model has room for a ring at batch 8."""
    shape = replace(shape_of(CONFIGS[name]), layers=1, vocab=4000, norm_eps=1e-5)
    for batch, capacity in ((1, 192), (1, 4096), (1, 32768), (3, 32768), (8, 192)):
        if batch > shape.batch_most:
            continue
        result = device.defines(build_program(shape, default_layout(shape, batch, capacity)), device.Tuning())
        assert batch > 1 or paths(result) <= taken, capacity
        assert result["STAGES"] >= max(7, result["IN_FLIGHT"], result["PREFETCHED_IN_FLIGHT"])
        assert device.shared_bytes(result) <= MAX_SHARED_BYTES


def test_a_gpu_with_fewer_sms_gets_a_program_of_its_own() -> None:
    shape = replace(shape_of(CONFIGS["llama-3.2-1b"]), layers=2, vocab=4000)
    layout = default_layout(shape, sms=114)
    check_programs(build_program(shape, layout))
    device.check_sms(layout.sms, 114)
    with pytest.raises(ValueError, match=f"sms: the layout has {default_layout(shape).sms} SMs and the GPU 114"):
        device.check_sms(default_layout(shape).sms, 114)
