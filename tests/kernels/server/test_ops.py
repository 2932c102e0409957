"""The ops of packed passes, without a GPU: which norms are within products, and what that compiles, times and packs."""

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast, get_args

import psutil
import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, Phi3Config

from kernels import registry, runners
from kernels.cuda.triton_build import TritonBuild
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.expert_tiles import can_tile, tile_experts
from kernels.model.loading import skeleton
from kernels.model.prompt_ops import LONG
from kernels.model_files import catalogue
from kernels.ops import MODEL_BYTES, AttentionCase, GatedCase, GroupedCase, LinearCase, LmHeadCase, RopeCase, case_from
from kernels.ops.base import SamplingKind
from kernels.plan import KvCacheDtype, PlannedOp
from kernels.quant.formats import EXPERTS, INT4
from kernels.quant.quantised_matrix import STORED_SCALES
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import NotedVariants, pass_builds
from kernels.server.execution.heads import TIMED_AS
from kernels.server.execution.inputs import size, views
from kernels.server.execution.ops import NORMED, Copies, Usable, head_ops, packed_ops
from kernels.server.execution.packed import PackedPass
from kernels.server.execution.served_plans import VARIANTS
from kernels.server.execution.shapes import PassShape
from kernels.server.execution.sizing import (
    RequestedSize,
    context_of,
    copies_beside,
    limits_for,
    packed_bytes,
    page_bytes,
)
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
from tests.kernels.runners.engine_models import CONFIGS

H200 = GPUS["h200"]


def epilogues(
    family: str, rows: int, gpu: str, copies: Copies = Copies.ALL, exclude: Collection[str] = (), weights: str = ""
) -> tuple[dict[str, set[str]], int]:
    """The epilogues of a layer's products by variant, and the norms that are kernels of their own."""
    model = Decoder(skeleton(GPU_CONFIGS[family], "bf16"))
    ops = packed_ops(model, PassShape(rows, 0, 16, 0), 16, 512, Usable(GPUS[gpu], copies, exclude, weights))
    result: dict[str, set[str]] = {}
    for op in ops:
        if op.op == "linear" and op.case["n"] != model.lm_head.shape[0]:
            result.setdefault(op.variant, set()).add(op.case["epilogue"])
    return result, sum(op.op == "rmsnorm" for op in ops)


@pytest.mark.parametrize(("family", "qkv"), [("llama", "rmsnorm_scale"), ("qwen2", "rmsnorm_scale_bias")])
def test_few_rows_are_normalised_within_the_products(family: str, qkv: str) -> None:
    within, apart = (
        {qkv, "rmsnorm_scale_swiglu", "residual"},
        {"bias" if "bias" in qkv else "none", "swiglu", "residual"},
    )
    assert epilogues(family, 16, "h200")[0] == {"skinny": within}
    assert epilogues(family, 17, "h200")[0] == epilogues(family, NORMED, "h200")[0] == {"small_gemm": within}
    assert epilogues(family, NORMED + 1, "h200")[0] == {"small_gemm": apart}
    assert epilogues(family, 32, "h200", Copies.STREAMED) == ({"small_gemm": apart}, 1)
    assert epilogues(family, 16, "h200", Copies.STREAMED)[0] == {"skinny": within}
    assert epilogues(family, 16, "h200", Copies.NONE) == ({"small_gemm": apart}, 1)
    assert epilogues(family, 8, "h200", Copies.NONE) == ({}, 2)  # one norm adds the residual


@pytest.mark.parametrize(("family", "qkv"), [("llama", "rmsnorm_scale"), ("qwen2", "rmsnorm_scale_bias")])
def test_int8_weights_are_multiplied_by_every_pass_that_has_kernels_for_its_rows(family: str, qkv: str) -> None:
    within, apart = (
        {qkv, "rmsnorm_scale_swiglu", "residual"},
        {"bias" if "bias" in qkv else "none", "swiglu", "residual"},
    )

    def found(rows: int, copies: Copies = Copies.ALL, gpu: str = "h200", exclude: Collection[str] = ()) -> object:
        return epilogues(family, rows, gpu, copies, exclude, "int8")[0]

    assert found(1) == found(16) == found(16, Copies.STREAMED) == {"skinny_int8": within}
    assert found(17) == found(64) == {"small_gemm_int8": apart}
    assert found(17, Copies.STREAMED) == found(32, exclude=["small_gemm_int8"]) == found(65) == {"small_gemm": apart}
    assert found(16, gpu="a100") == found(8, Copies.NONE) == found(8, exclude=["skinny_int8"]) == {}


@pytest.mark.parametrize("weights", INT4)
def test_int4_is_streamed_by_few_rows_beside_a_head_in_int8(weights: str) -> None:
    """More rows take int8, or the model's own weights."""
    other = backend_of(GPU_CONFIGS["llama"], weights)
    vocabulary = len(other.model.lm_head)
    for shape, ops, _ in other.passes():
        rows, draws = (
            {op.variant for op in ops if op.case.get("n", op.case.get("vocab")) != vocabulary and op.op == "linear"},
            {op.variant for op in ops if vocabulary in (op.case.get("n"), op.case.get("vocab"))},
        )
        if shape.rows <= 16:
            assert rows == {f"skinny_{weights}"}
            assert draws <= {"skinny_int8", "lm_head_skinny_int8"}
        else:
            assert rows <= {"small_gemm_int8", "small_gemm", "gemm_hopper"}


def test_fp8_is_multiplied_as_it_was_stored_beside_a_head_in_16_bits() -> None:
    """No norm is folded into its codes. Passes of 17 to 64 rows are timed beside the model's own weights."""
    other = backend_of(GPU_CONFIGS["llama"], "fp8")
    vocabulary = len(other.model.lm_head)
    for shape, ops, kind in other.passes():
        linear = [op for op in ops if op.op == "linear"]
        rows = {op.variant for op in linear if op.case["n"] != vocabulary}
        assert kind is None
        assert not any("rmsnorm" in op.case["epilogue"] for op in linear)
        assert {op.variant for op in linear if op.case["n"] == vocabulary} <= {"skinny", "small_gemm"}
        if shape.rows <= 16:
            assert rows == {"skinny_fp8"}
        else:
            assert rows in ({"small_gemm"}, {"gemm_hopper"}, set(), *([{"small_gemm_fp8"}] if shape.rows <= 64 else []))
        assert ("own_weights" in other._arrangements(shape)) == (16 < shape.rows <= 64)


def test_passes_in_int8_are_timed_beside_the_models_own_weights() -> None:
    """Whatever their chunks are; not those whose products are streamed."""
    other = backend_of(GPU_CONFIGS["llama"], "int8")
    for shape in other.shapes:
        arrangements = other._arrangements(shape)
        assert ("own_weights" in arrangements) == (16 < shape.rows <= 64), shape
        lowered = {op.variant for op in arrangements.get("own_weights", []) if op.case.get("m", 0) > 16}
        assert "small_gemm_int8" not in lowered


def test_weights_that_were_stored_in_int8_are_multiplied_as_they_are() -> None:
    """A norm that is folded in would change their codes, so norms and the draw are kernels of their own."""
    other = backend_of(GPU_CONFIGS["llama"], "int8")
    o = other.model.layers[0].o
    setattr(o, STORED_SCALES, torch.ones(len(o), -(-o.shape[1] // 32), dtype=torch.float16))
    result = [(op, kind) for _, ops, kind in other.passes() for op in ops if op.variant.endswith("_int8")]
    assert {op.variant for op, _ in result} == {"skinny_int8", "small_gemm_int8"}
    assert not any(kind or "rmsnorm" in op.case["epilogue"] for op, kind in result)


def test_what_is_excluded_is_left_to_others_or_to_torch() -> None:
    apart = {"none", "swiglu", "residual"}
    assert epilogues("llama", 16, "h200", exclude=["skinny"]) == ({"small_gemm": apart}, 1)
    assert epilogues("llama", 32, "h200", exclude=["small_gemm"]) == ({}, 1)
    assert epilogues("llama", 32, "h200", exclude=["small_gemm", "rmsnorm_triton"]) == ({}, 0)


class CountedCopies(NotedVariants):
    """Variants that are never built, with the bytes of the weights that they would copy, by copy."""

    copies: dict[tuple[object, ...], int]

    def pack(self, bound, weight: Tensor, norm: Tensor | None = None):
        name = bound.variant.name
        if name in ("skinny", "lm_head_skinny") or bound.variant.lossy or norm is not None:
            how = bound.variant.packing(bound.case, bound.params)
            size = weight.numel() * MODEL_BYTES[bound.case.weights]
            self.copies[weight.data_ptr(), how, 0 if norm is None else norm.data_ptr()] = size
        return weight


def packed_pass(
    backend: KernelsBackend, variants: NotedVariants, shape: PassShape, head: SamplingKind | None = None
) -> PackedPass:
    memory = torch.empty(size(shape, backend._pages), dtype=torch.uint8)
    return PackedPass(backend.model, variants, backend.state, shape, views(memory, shape, backend._pages), head)


def backend_of(
    config: dict[str, Any],
    weights: str = "",
    tiled: bool = False,
    ops: Sequence[PlannedOp] = (),
    kv_cache_dtype: KvCacheDtype = "auto",
) -> KernelsBackend:
    loaded = runners.load(None, config, seed=1, generated=True, dtype="bf16", device="cpu")
    assert can_tile(loaded, H200) == ("num_experts" in config)
    if tiled:
        tile_experts(loaded)
    model = Decoder(loaded)
    limits = limits_for(model, loaded.config, RequestedSize(64, 48, kv_cache_dtype=kv_cache_dtype))
    return KernelsBackend(model, H200, limits, weights=weights, ops=ops)


@pytest.fixture(scope="module")
def backend() -> KernelsBackend:
    return backend_of(GPU_CONFIGS["llama"])


@pytest.fixture(scope="module")
def of_experts() -> KernelsBackend:
    return backend_of(CONFIGS["qwen3-moe"])


def test_the_products_of_experts_are_planned_with_their_rows_and_take_the_models_own_weights(of_experts):
    """Each of 8 experts has 48 rows of gate and as many of up; a token has 3 rows."""
    for shape, ops, head in of_experts.passes():
        noted = NotedVariants(ops, H200)
        packed_pass(of_experts, noted, shape, head)
        result = {value.case: value for value in noted._found.values() if value and isinstance(value.case, GroupedCase)}
        assert {(case.rows, case.n, case.k) for case in result} == {(3 * shape.rows, 96, 64), (3 * shape.rows, 64, 48)}
        assert {value.variant.name for value in result.values()} == {"grouped_hopper"}
    copied: dict[tuple[object, ...], int] = {}
    for shape, ops, head in of_experts.passes():
        counted = CountedCopies(ops, H200)
        counted.copies = copied
        packed_pass(of_experts, counted, shape, head)
    assert sum(copied.values()) == packed_bytes(of_experts.model, H200)


def test_tiles_of_experts_are_multiplied_with_their_activation_by_the_product_of_tiles(of_experts):
    """Whatever a plan names for products that take the weights row by row."""
    planned = [op for _, ops, _ in of_experts.passes() for op in ops if op.op == "grouped"]
    tiled = backend_of(CONFIGS["qwen3-moe"], tiled=True, ops=planned)
    for shape, ops, head in tiled.passes():
        noted = NotedVariants(ops, H200)
        packed_pass(tiled, noted, shape, head)
        planned_ops = [
            value for value in noted._found.values() if value and isinstance(value.case, GroupedCase | GatedCase)
        ]
        forms = {(item.case.n, item.case.k, item.case.epilogue): item for item in planned_ops}
        assert [*forms] == [(48, 64, "swiglu"), (64, 48, "none")]
        assert all((item.variant.name, item.params) == ("grouped_hopper", {"tiled": True}) for item in planned_ops)
    plain = BoundVariants([], GPUS["cpu"])
    with pytest.raises(ValueError, match="no product of tiles is planned"):
        packed_pass(tiled, plain, tiled.shapes[0])


def test_passes_of_some_decodes_are_timed_with_norms_within_products_and_apart(backend: KernelsBackend) -> None:
    alone = [shape for shape in backend.shapes if not shape.blocks and shape.decodes > 8]
    arranged = {shape.decodes: backend._arrangements(shape) for shape in alone}
    assert {decodes: [*found] for decodes, found in arranged.items()} == {
        16: ["step_attention"],
        32: ["step_attention", "separate", "separate_norms"],
        48: ["step_attention", "separate", "separate_norms"],
    }
    shape = next(shape for shape in alone if shape.decodes == 32)
    normalising = {}
    for name, ops in arranged[32].items():
        noted = NotedVariants(ops, H200)
        packed_pass(backend, noted, shape)
        cases = [value.case for value in noted._found.values() if value and value.variant.name == "small_gemm"]
        normalising[name] = sum(isinstance(case, LinearCase) and case.normalises for case in cases)
    assert normalising == {"step_attention": 2, "separate": 2, "separate_norms": 0}


def test_pages_in_fp8_are_written_and_read_by_kernels_for_them_and_never_by_the_step_in_one(backend) -> None:
    """Whatever a plan names for pages in 16 bits. All of it is compiled as for an H200."""
    planned = [op for _, ops, _ in backend.passes() for op in ops if op.op in ("rope", "attention", "step_attention")]
    fp8 = backend_of(GPU_CONFIGS["llama"], ops=planned, kv_cache_dtype="fp8")
    assert {shape.blocks > 0 for shape in fp8.shapes} == {True, False}
    for shape, ops, head in fp8.passes():
        noted = NotedVariants(ops, H200)
        packed_pass(fp8, noted, shape, head)
        result = [
            value for value in noted._found.values() if value and isinstance(value.case, RopeCase | AttentionCase)
        ]
        attended = ["decode_split"] * (bool(shape.decodes) + bool(shape.blocks))
        assert sorted(item.variant.name for item in result) == [*attended, "rope_triton"]
        assert {item.case.kv_dtype for item in result} == {"fp8"}
        assert not [value for value in noted._found.values() if value and value.case.op == "step_attention"]
    builds = [build for build in pass_builds(fp8) if isinstance(build, TritonBuild)]
    for name in ("_rope", "decode"):
        each = next(build for build in builds if build.function == name)
        assert "fp8e4nv" in str(each)
        each.make()


def test_passes_of_few_decodes_may_end_with_a_head(backend: KernelsBackend) -> None:
    result: dict[int, list[SamplingKind]] = {}
    for shape, ops, head in backend.passes():
        if head:
            result.setdefault(shape.decodes, []).append(head)
            mine = [op for op in ops if op.op == "lm_head" and op.case["sampling"] == head]
            assert [(op.variant, op.case["m"]) for op in mine] == [("lm_head_skinny", shape.sampled)]
            assert not shape.blocks
    assert result == {decodes: [*TIMED_AS] for decodes in (1, 2, 4, 8, 16)}
    for excluded in ("lm_head_skinny", "skinny"):
        without = KernelsBackend(backend.model, H200, backend.limits, exclude=[excluded])
        assert not any(head for _, _, head in without.passes())


@pytest.mark.parametrize("model", ["qwen2.5-1.5b", "llama-3.1-8b"])
def test_a_head_reads_the_weights_that_the_logits_are_computed_from(model: str) -> None:
    head = Decoder(skeleton(catalogue.entry(model)[0], "bf16"))
    for rows in (1, 2, 4, 8, 16):
        shape = PassShape(rows, 0, 16, 0)
        ops = [*packed_ops(head, shape, 16, 512, Usable(H200)), *head_ops(head, shape, Usable(H200))]
        cases = [(registry.variant(op.variant), case_from.validate_python(op.case), op.params) for op in ops]
        result = [
            (v, c, p) for v, c, p in cases if isinstance(c, LmHeadCase) or getattr(c, "n", 0) == head.lm_head.shape[0]
        ]
        assert len(result) == 3 or (len(result) == 2 and head.lm_head.shape[1] >= 4096)
        assert len({variant.packing(case, params) for variant, case, params in result}) == 1


@pytest.mark.parametrize(
    ("most", "weights", "excluded"),
    [
        *((most, weights, []) for most in Copies for weights in ("", "int8", "fp8")), (Copies.ALL, "", ["skinny"]),
        (Copies.ALL, "int8", ["skinny_int8"]), (Copies.STREAMED, "int8", ["small_gemm_int8"]),
        (Copies.ALL, "int4_zero", []), (Copies.ALL, "int4_minimum", ["small_gemm_int8"]),
        (Copies.ALL, "fp8", ["small_gemm_fp8"]),
    ],
)  # fmt: skip
def test_memory_is_kept_for_every_copy_of_a_weight(backend, most, weights, excluded):
    fewer = KernelsBackend(backend.model, H200, backend.limits, copies=most, exclude=excluded, weights=weights)
    copies = Usable(H200, most, excluded, weights).copies
    made: dict[tuple[object, ...], int] = {}
    heads = set()
    for shape, ops, head in fewer.passes():
        counted = CountedCopies(ops, H200)
        counted.copies = made
        packed_pass(fewer, counted, shape, head)
        heads.add(head)
    assert heads == {None, *(TIMED_AS if copies and weights != "fp8" else ())}
    assert sum(made.values()) == packed_bytes(backend.model, H200, copies, weights)
    assert packed_bytes(backend.model, GPUS["a100"], copies) == 0


def test_a_pass_uses_each_variant_that_can_be_excluded_and_can_do_without_all_of_them(backend, of_experts):
    prompts = PassShape(0, LONG // 16, 16, 1)
    every = {op.variant for _, ops, _ in backend.passes() for op in ops}
    every |= {op.variant for op in packed_ops(backend.model, prompts, 16, 512, Usable(H200))}
    every |= {op.variant for _, ops, _ in of_experts.passes() for op in ops}
    for weights in ("int8", "fp8", *INT4):
        lower = KernelsBackend(backend.model, H200, backend.limits, weights=weights)
        lower.shapes = [shape for shape in lower.shapes if shape.decodes in (1, 48)]
        every |= {op.variant for _, ops, _ in lower.passes() for op in ops}
    for weights in EXPERTS:
        lower, copies = KernelsBackend(of_experts.model, H200, of_experts.limits, weights=weights), {}
        for shape, ops, head in lower.passes():
            every |= {op.variant for op in ops}
            counted = CountedCopies(ops, H200)
            counted.copies = copies
            packed_pass(lower, counted, shape, head)
        assert int(sum(copies.values())) == packed_bytes(of_experts.model, H200, weights=weights)
    assert every == set(VARIANTS)
    without = KernelsBackend(backend.model, H200, backend.limits, exclude=VARIANTS)
    assert not any(ops for _, ops, _ in without.passes())
    left = [build.function for build in pass_builds(without) if isinstance(build, TritonBuild)]
    assert sorted(left) == ["_embed", "_parts", "_pick"]
    assert len(left) == len(pass_builds(without))


def test_fewer_copies_are_made_where_the_pages_would_not_fit_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """All copies of these weights take 18.1 GiB, those that are streamed 9.1."""
    skeletal = SimpleNamespace(nbytes=1 << 20)
    layer = SimpleNamespace(streamed=[skeletal] * 290, normed=[skeletal] * 288)
    on = SimpleNamespace(device=torch.device("cuda"), itemsize=2)
    heads = SimpleNamespace(heads=32, kv_heads=8, head_dim=128)
    model: Any = SimpleNamespace(shapes=[heads] * 32, layers=[layer] * 32, lm_head=skeletal, embedding=on)
    config = LlamaConfig(max_position_embeddings=2048)

    def found(free_gib: float, **wanted: int) -> Copies:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (int(free_gib * 2**30), 140 << 30))
        return copies_beside(model, config, H200, RequestedSize(**wanted), reserved=1 << 30)

    assert packed_bytes(model, H200, Copies.STREAMED) >> 20 == 290 * 32 + 1
    assert [found(gib) for gib in (22, 15, 8)] == [Copies.ALL, Copies.STREAMED, Copies.NONE]
    assert [found(gib, kv_bytes=8 << 30) for gib in (40, 25, 15)] == [Copies.ALL, Copies.STREAMED, Copies.NONE]
    sizes = (RequestedSize(kv_bytes=8 << 30, kv_cache_dtype=name) for name in get_args(KvCacheDtype))
    assert [limits_for(model, config, size).pages for size in sizes] == [4096, 8192]


def test_a_model_whose_packed_weights_leave_no_page_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = SimpleNamespace(heads=40, kv_heads=8, head_dim=128)
    model = SimpleNamespace(shapes=[heads] * 64, embedding=SimpleNamespace(device=torch.device("cuda"), itemsize=2))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (78 << 30, 140 << 30))
    config = LlamaConfig(max_position_embeddings=2048)
    text = "no KV page: 78.0 GiB are free beside the model, and packed copies of its weights take 97.5 GiB$"
    with pytest.raises(MemoryError, match=text):
        limits_for(cast("Any", model), config, RequestedSize(), 195 << 29)


def test_sequences_are_no_longer_than_the_model_was_trained_for_unless_the_operator_wishes_it() -> None:
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    rope["original_max_position_embeddings"] = 4096
    config = Phi3Config(max_position_embeddings=131072, original_max_position_embeddings=4096, rope_parameters=rope)
    sizes = (None, 4000, 32768, 1 << 20)
    assert [context_of(config, RequestedSize(max_model_len=size)) for size in sizes] == [4096, 4000, 32768, 131072]


def test_on_a_cpu_kv_pages_take_a_share_of_free_memory_and_no_more_than_4_gib() -> None:
    """Pages of 4 MiB for four million sequences, of one token each."""
    heads = SimpleNamespace(heads=64, kv_heads=8, head_dim=128)
    model: Any = SimpleNamespace(shapes=[heads] * 32, embedding=SimpleNamespace(device=torch.device("cpu"), itemsize=4))
    config, wanted = LlamaConfig(max_position_embeddings=1), {"max_num_seqs": 1 << 22}
    pages = limits_for(model, config, RequestedSize(**wanted)).pages
    assert 2 <= pages <= min(0.8 * psutil.virtual_memory().total, 4 * 2**30) / page_bytes(model)
    assert limits_for(model, config, RequestedSize(**wanted, kv_bytes=100 << 20)).pages == 25
    fp8 = RequestedSize(**wanted, kv_bytes=100 << 20, kv_cache_dtype="fp8")
    assert (page_bytes(model, "fp8"), limits_for(model, config, fp8).pages) == (1 << 20, 100)
    with pytest.raises(
        MemoryError, match=r"^KV pages of 8,192.0 GiB do not fit in the [\d.]+ GiB that are free beside"
    ):
        limits_for(model, config, RequestedSize(**wanted, kv_bytes=8 << 40))
