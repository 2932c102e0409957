"""Arguments of Triton kernels launched without Triton: which, in how many bytes, what tells calls apart."""

import ctypes
import gc
import pickle
import re
import shutil
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels import registry
from kernels.cuda import triton_launch
from kernels.cuda.call import Prepared, Workspace, identity, launch_nothing
from kernels.cuda.launch import pack_argument
from kernels.cuda.nvrtc import PREBUILT
from kernels.cuda.triton_build import build_of, compiling_for
from kernels.cuda.triton_launch import leaves, pack_launch
from kernels.fused.rmsnorm_triton import RmsNorm
from kernels.hardware import GPUS
from kernels.ops import AttentionCase, Case, GatedCase, RmsNormCase, RopeCase
from kernels.proof import inputs
from tests.kernels.cuda.triton_calls import MODULES, Given, Specialised, prepared_calls

BYTES = {"u64": 8, "b64": 8, "u32": 4, "b32": 4, "f32": 4}
HEADS = {"head_dim": 16, "heads": 4, "kv_heads": 2}
CASES: list[tuple[str, Case, dict[str, Any]]] = [
    ("rmsnorm_triton", RmsNormCase(m=3, n=256), {}),
    ("rmsnorm_triton", RmsNormCase(m=3, n=40, residual=True, quantise="fp8"), {"pdl": True}),
    ("gated_triton", GatedCase(m=2, n=100), {"pdl": True}),
    ("rope_triton", RopeCase(batch=2, q_len=3, **HEADS), {}),
    ("rope_triton", RopeCase(batch=2, q_len=1, append=True, paged=True, **HEADS), {"pdl": True}),
    ("rope_triton", RopeCase(batch=2, q_len=1, append=True, paged=True, kv_dtype="fp8", **HEADS), {"pdl": True}),
    ("flash_triton", AttentionCase(kind="prefill", batch=1, q_len=20, kv_len=20, **HEADS), {"pdl": True}),
    ("decode_split", AttentionCase(kind="decode", batch=2, q_len=1, kv_len=70, **HEADS), {}),
]


def drawn(case: Case) -> dict[str, Any]:
    return inputs.draw(case, torch.device("cpu"), seed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "case", "params"), CASES, ids=lambda each: getattr(each, "key", None))
def test_what_is_packed_is_what_triton_passes_and_the_kernel_declares(name, case, params, monkeypatch):
    for module in MODULES:
        if hasattr(module, "uses_pdl"):
            monkeypatch.setattr(module, "uses_pdl", lambda pdl, device: pdl)
    calls = prepared_calls(monkeypatch)
    registry.variant(name).build(case, params)._prepare(True, 7, None, **drawn(case))
    (call,) = calls
    triton = Specialised(call)
    compiled = triton.compiled()
    kernel = pack_launch(compiled, call.arguments, call.outputs, 99)

    outputs = call.outputs if isinstance(call.outputs, tuple) else (call.outputs,)
    new = tuple(torch.empty_like(output) for output in outputs)
    launches: list[Any] = []
    monkeypatch.setattr(triton_launch, "Launch", lambda *args: launches.append(args))
    kernel.launch(call.grid, 7, new if isinstance(call.outputs, tuple) else new[0])
    _, grid, threads, arguments, stream, _, pdl = launches[0]
    assert (grid, threads, stream, pdl) == (call.grid, 32 * call.options["num_warps"], 7, params.get("pdl", False))

    replaced = {id(each): other for each, other in zip(outputs, new, strict=True)}
    expected = [replaced.get(id(item), item) for item in triton.passed(call.arguments)]
    addresses = [item.data_ptr() if isinstance(item, Tensor) else item for item in expected]
    given = [np.float32(item) if isinstance(item, float) else item for item in [*addresses, 0, 0]]
    assert [float(argument) for argument in arguments] == [float(item) for item in given]
    declared = [BYTES[kind] for kind in re.findall(r"\.param \.(\w+)[^,)]*_param_\d+", compiled.asm["ptx"])]
    held = [ctypes.sizeof(pack_argument(argument)) for argument in arguments]
    assert len(held) == len(declared)
    assert all(a == b for a, b, value in zip(held, declared, arguments, strict=True) if isinstance(value, np.float32))
    assert all(a >= b for a, b in zip(held, declared, strict=True))  # integers take their lower bytes


@pytest.mark.parametrize(("name", "case", "params"), CASES, ids=lambda each: getattr(each, "key", None))
def test_what_is_noted_on_the_meta_device_is_what_a_call_compiles(name, case, params, monkeypatch):
    with compiling_for(90, GPUS["h200"].sms) as noted:
        function, arguments = registry.variant(name).build(case, params), drawn(case)
        on_meta = {key: each.to("meta") if isinstance(each, Tensor) else each for key, each in arguments.items()}
        function._prepare(True, 7, None, **on_meta)
    for module in MODULES:
        if hasattr(module, "uses_pdl"):
            monkeypatch.setattr(module, "uses_pdl", lambda pdl, device: pdl)
    monkeypatch.setattr("kernels.attention.decode_call.processors", lambda: GPUS["h200"].sms)
    calls = prepared_calls(monkeypatch)
    registry.variant(name).build(case, params)._prepare(True, 7, None, **arguments)
    assert noted == [build_of(calls[0].kernel, calls[0].arguments, calls[0].options, 90)]


def test_triton_finds_a_kernel_that_was_compiled_ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Made into a folder that lies elsewhere later, as `kernels compile` makes it."""
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from kernels.server.execution.embed_triton import _embed

    ids, table = torch.zeros(3, dtype=torch.int64), torch.zeros(5, 64, dtype=torch.bfloat16)
    arguments = ids, ids, ids, table, table, 64, 2048
    build = pickle.loads(pickle.dumps(build_of(_embed, arguments, {"num_warps": 4}, 90)))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(PREBUILT, raising=False)
    path = build.make_into(tmp_path / "ahead")
    assert path == tmp_path / "ahead" / build.name
    assert not build.is_made
    monkeypatch.setenv(PREBUILT, str(shutil.move(tmp_path / "ahead", tmp_path / "elsewhere")))
    assert build.is_made
    hits: list[bool] = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **facts: hits.append(facts["cache_hit"]))
    monkeypatch.setattr(driver, "_active", SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
    ))  # fmt: skip
    _embed.run(*arguments, grid=(1, 1, 1), warmup=True, num_warps=4)
    _embed.device_caches.clear()
    assert hits == [True]


def view(memory: Tensor, draw: Any, *shape: int) -> Tensor:
    """A tensor of that shape in the memory, at its begin or one element on, with a gap in one dimension at most."""
    gap_at, gap = draw(st.sampled_from([(-1, 0)] * 2 + [(at, gap) for at in range(1, len(shape)) for gap in (1, 8)]))
    steps, step = [1], 1
    for at in reversed(range(1, len(shape))):
        step = step * shape[at] + (gap if at == gap_at else 0)
        steps.insert(0, step)
    return memory.as_strided(shape, tuple(steps), draw(st.sampled_from((0, 1))))


def norm_call(draw: Any, memory: Tensor) -> dict[str, Any]:
    m = draw(st.sampled_from((1, 2, 16)))
    residual = {"residual": view(memory, draw, m, 48)} if draw(st.booleans()) else {}
    return {"x": view(memory, draw, m, 48), "w": view(memory, draw, 48), **residual}


def append_call(draw: Any, memory: Tensor) -> dict[str, Any]:
    q, k, v = (view(memory, draw, 2, 1, heads, 16) for heads in (4, 2, 2))
    cos, sin = (view(memory, draw, 2, 1, 16) for _ in range(2))
    cache = view(memory, draw, draw(st.sampled_from((1, 2, 16))), 16, 2, 16)
    integers = draw(st.sampled_from((torch.int32, torch.int64)))
    position = memory.view(integers)[: draw(st.sampled_from((1, 2)))]
    table = view(memory.view(torch.int32), draw, 2, draw(st.sampled_from((1, 3, 16))))
    given = {"q": q, "k": k, "v": v, "cos": cos, "sin": sin, "k_cache": cache, "v_cache": cache}
    return given | {"position": position, "page_table": table}


def rope_call(draw: Any, memory: Tensor) -> dict[str, Any]:
    result = append_call(draw, memory)
    return {name: result[name] for name in ("q", "k", "cos", "sin")}


def gated_call(draw: Any, memory: Tensor) -> dict[str, Any]:
    return {"gate_up": view(memory, draw, draw(st.sampled_from((1, 2, 16))), 96)}


def prompt_call(draw: Any, memory: Tensor) -> dict[str, Any]:
    return {name: view(memory, draw, 1, 20, heads, 16) for name, heads in (("q", 4), ("k", 2), ("v", 2))}


def decode_call(draw: Any, memory: Tensor) -> dict[str, Any]:
    capacity, integers = draw(st.sampled_from((1, 16, 20))), draw(st.sampled_from((torch.int32, torch.int64)))
    k, v = (view(memory, draw, 2, capacity, 2, 16) for _ in range(2))
    return {"q": view(memory, draw, 2, 1, 4, 16), "k": k, "v": v if v.stride() == k.stride() else k,
            "lengths": memory.view(integers)[: draw(st.sampled_from((1, 2)))]}  # fmt: skip


DRAWN: list[tuple[str, Case, Any]] = [
    ("rmsnorm_triton", RmsNormCase(m=2, n=48), norm_call),
    ("gated_triton", GatedCase(m=2, n=48), gated_call),
    ("rope_triton", RopeCase(batch=2, q_len=1, **HEADS), rope_call),
    ("rope_triton", RopeCase(batch=2, q_len=1, append=True, paged=True, **HEADS), append_call),
    ("flash_triton", CASES[6][1], prompt_call),
    ("decode_split", AttentionCase(kind="decode", batch=2, q_len=1, kv_len=70, **HEADS), decode_call),
]


@pytest.mark.parametrize(("name", "case", "make"), DRAWN, ids=lambda each: getattr(each, "key", None))
def test_calls_that_differ_for_triton_have_different_keys(name: str, case: Case, make: Any) -> None:
    """One argument of a call after the other becomes that of a second: where the launch differs, both keys do."""
    memory, variant = torch.zeros(1 << 14, dtype=torch.bfloat16), registry.variant(name)

    @settings(max_examples=50, deadline=None, database=None)
    @given(st.data())
    def differ(data: Any) -> None:
        first, second = make(data.draw, memory), make(data.draw, memory)
        changed = [first | {name: second[name]} for name in second]
        for item in changed if "k_cache" in second else ():
            other = "k_cache" if item["v_cache"] is first["v_cache"] else "v_cache"
            item["k_cache"] = item["v_cache"] = item[other]  # of equal strides
        with pytest.MonkeyPatch.context() as monkeypatch:
            calls = prepared_calls(monkeypatch)
            function = variant.build(case, {})
            for value in (first, *changed):
                function._prepare(False, 7, None, **value)
        launched = [_launched(call, memory) for call in calls]
        for at, each in enumerate(changed, start=1):
            for key in (function.open_layout, identity):
                one, other = ((tuple(given), key((memory, *given.values()))) for given in (first, each))
                assert launched[0] == launched[at] or one != other

    differ()


def _launched(call: Any, memory: Tensor) -> Any:
    """What decides a launch: the grid, what Triton compiles for, and the values that are passed."""
    triton, begin, values = Specialised(call), memory.data_ptr(), []
    for item in triton.passed(call.arguments):
        inside = isinstance(item, Tensor) and begin <= item.data_ptr() < begin + memory.nbytes
        values.append(item.data_ptr() if inside else None if isinstance(item, Tensor) else item)
    return tuple(call.grid), str(triton.specialisation), values


def test_an_append_by_names_in_any_order_is_read_as_one_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    case, read = RopeCase(batch=2, q_len=1, append=True, **HEADS), []
    function, arguments = registry.variant("rope_triton").build(case, {}), drawn(case)
    monkeypatch.setattr("kernels.cuda.call.current_stream", lambda: (0, 7))
    monkeypatch.setattr(function, "open_layout", lambda given: read.append([*map(id, given)]))
    monkeypatch.setattr(function, "_prepare", lambda *args, **named: Prepared(lambda: None, lambda _: launch_nothing))
    ordered = [arguments[name] for name in ("q", "k", "v", "cos", "sin", "k_cache", "v_cache", "position")]
    for values, named in ((ordered, {}), ([], dict(reversed(arguments.items()))), (ordered, {"page_table": None})):
        function.unchecked(*values, **named, out=arguments["q"])
    assert read[1] == read[2] == [*read[0], *[id(None)] * 3]


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (torch.zeros(3, 8), "out is not the 3 outputs out, out's scale, out's x"),
        ((torch.zeros(3, 8), torch.zeros(3, 1)), "out is not the 3 outputs"),
        ((torch.zeros(3, 8), torch.zeros(3), torch.zeros(3, 8)), r"out's scale has shape \[3\]"),
        ((torch.zeros(3, 8), torch.zeros(3, 1), torch.zeros(3, 8).half()), r"out's x \+ residual is torch.float16"),
        ((torch.zeros(25)[1:].view(3, 8), torch.zeros(3, 1), torch.zeros(3, 8)), "out begins at"),
    ],
)
def test_a_wrong_output_is_named(out: Any, said: str) -> None:
    x = torch.zeros(3, 8)
    with pytest.raises(ValueError, match=f"^{said}"):
        RmsNorm(torch.float32)(x, x[0], x, out=out)


def test_constants_and_ones_are_left_out_wherever_they_lie() -> None:
    source = SimpleNamespace(signature={"x": ("*bf16", "constexpr", ("i32", "fp32")), "n": "i32", "C": "constexpr"})
    x = torch.zeros(4, dtype=torch.bfloat16)
    result = list(leaves(((x, 1, (3, 0.5)), 7, 99), source))
    assert result[0][0] is x
    assert [kind for _, kind in result] == ["*bf16", "i32", "fp32", "i32"]
    assert [value for value, _ in result[1:]] == [3, 0.5, 7]


class Jit:
    """Stands in for a compiled kernel, which needs a GPU to be loaded."""

    def __init__(self, **metadata: Any) -> None:
        plain = {"global_scratch_size": 0, "profile_scratch_size": 0, "num_ctas": 1, "num_warps": 4, "shared": 1024}
        self.metadata = SimpleNamespace(**plain | {"launch_pdl": False} | metadata)
        self.src = SimpleNamespace(signature={"x": "*fp32", "y": "*fp32", "eps": "fp32", "n": "i32"})
        self.name = "jit"


def test_an_output_or_a_type_that_the_kernel_was_not_compiled_for_is_refused() -> None:
    y = torch.zeros(8)
    with pytest.raises(ValueError, match="no multiple of 16 bytes"):
        pack_launch(Jit(), (y, y, 0.5, 3), y, 99).launch((1,), 7, y[1:])
    kernel, y = Jit(), torch.zeros(4)
    kernel.src.signature["eps"] = "bf16"
    with pytest.raises(TypeError, match="type bf16"):
        pack_launch(kernel, (y, y, 0.5, 3), y, 99)


@pytest.mark.parametrize("metadata", [{"global_scratch_size": 64}, {"profile_scratch_size": 8}, {"num_ctas": 2}])
def test_a_kernel_that_needs_more_than_arguments_is_refused(metadata: dict[str, int]) -> None:
    y = torch.zeros(4)
    with pytest.raises(NotImplementedError, match="jit needs"):
        pack_launch(Jit(**metadata), (y, y, 0.5, 3), y, 99)


@pytest.mark.parametrize(("name", "case", "params"), CASES, ids=lambda each: getattr(each, "key", None))
def test_what_is_kept_of_a_call_holds_none_of_its_tensors(name, case, params, monkeypatch):
    def compiled(kernel: Any, arguments: Any, outputs: Any, **options: Any) -> Any:
        result = Jit()
        result.src = Specialised(Given(kernel, (1,), outputs, arguments, options)).source
        return pack_launch(result, arguments, outputs, 99)

    def kept() -> Any:
        arguments = drawn(case)
        return function._prepare(True, 7, None, **arguments), [weakref.ref(argument) for argument in arguments.values()]

    monkeypatch.setattr(Tensor, "is_cuda", True)
    monkeypatch.setattr(Workspace, "take", lambda self, stream, make: make())
    monkeypatch.setattr(triton_launch, "bound", compiled)
    function = registry.variant(name).build(case, params)
    call, tensors = kept()
    gc.collect()
    assert call.holds is None
    assert [tensor() for tensor in tensors] == [None] * len(tensors)
