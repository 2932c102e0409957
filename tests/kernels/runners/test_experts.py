"""Layers of experts: routing and products alone, what is planned for them, and what is refused in a sentence."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernels import registry, runners
from kernels.cli.bench_experts import count_choices, skew_routers, with_experts
from kernels.hardware import GPUS
from kernels.model import expert_tiles, experts
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder, refusal
from kernels.model.experts import Experts, Grouped, Order, router_of
from kernels.model.layer_cases import few_expert_cases
from kernels.model.loading import skeleton
from kernels.model.model_case import model_case
from kernels.ops import GroupedCase
from kernels.plan import Plan
from kernels.quant.absmax import quantise_absmax, values
from kernels.runners.eager import EagerRunner
from kernels.runners.kernels_runner import KernelsRunner
from kernels.tune.plan_search import planned_op, usable
from tests.kernels.gemm.grouped_on_cpu import on_cpu
from tests.kernels.runners.engine_models import CONFIGS, SPARSE
from tests.kernels.runners.planned_models import applied, load, planned
from tests.kernels.triton_compiling import stack_bytes


def layer_of(name: str) -> tuple[Any, Experts]:
    model = load(name)
    mlp = Decoder(model).layers[0].mlp
    assert isinstance(mlp, Experts)
    return model.model.layers[0].mlp, mlp


def rows_of(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", SPARSE)
def test_a_layers_router_chooses_the_experts_of_transformers_with_their_shares(name: str) -> None:
    module, w = layer_of(name)
    x = rows_of(50, 64)
    for given in (x, x.bfloat16()):
        module.to(given.dtype)
        router = router_of(module)
        shares, chosen = experts.route(F.linear(given, router.weight, getattr(router, "bias", None)), w)
        _, wanted, numbers = router(given)
        assert torch.equal(chosen, numbers)
        rtol = 1e-6 if name == "gpt-oss" else 0  # transformers has the softmax of the best alone
        torch.testing.assert_close(shares, wanted.float(), rtol=rtol, atol=0)


@pytest.mark.parametrize(("tokens", "most"), [(1, 8), (7, 8), (40, 3)])
def test_the_order_holds_each_experts_rows_together(tokens: int, most: int) -> None:
    """`most`: the experts beyond it get no rows."""
    draw = torch.Generator().manual_seed(tokens)
    chosen = torch.stack([torch.randperm(most, generator=draw)[:3] for _ in range(tokens)])
    order: Order = experts.order_by_expert(chosen, 8)
    begin, seen = 0, []
    for expert, end in enumerate(order.offs.tolist()):
        seen += [(token, expert) for token in order.token[begin:end].tolist()]
        begin = end
    assert begin == 3 * tokens
    assert order.offs.dtype == torch.int32
    assert sorted(seen) == sorted((token, expert) for token, row in enumerate(chosen.tolist()) for expert in row)
    result = [[seen[place] for place in places] for places in order.inverse.tolist()]
    assert result == [[(token, expert) for expert in row] for token, row in enumerate(chosen.tolist())]


def test_all_of_torchs_products_agree_also_where_experts_have_no_rows() -> None:
    x, w = rows_of(9, 16), rows_of(5, 24, 16)
    ends = torch.tensor([0, 4, 4, 9, 9], dtype=torch.int32)
    expected = torch.cat([x[:4] @ w[1].T, x[4:] @ w[3].T])
    torch.testing.assert_close(experts.torch_grouped(x, w, ends), expected)
    for product in (experts._by_masking, experts._by_gathered_weights):
        torch.testing.assert_close(product(x, w, ends), expected)


@pytest.mark.parametrize("name", SPARSE)
def test_a_layer_is_that_of_transformers_by_either_product(name: str) -> None:
    module, w = layer_of(name)
    x = rows_of(30, 64)
    expected = module(x[None])[0].view(30, 64)
    for product in (experts.torch_grouped, experts._by_masking, experts._by_gathered_weights):
        output = experts.apply_experts(x, w, experts.products_of(w, product), experts.TORCH_ROUTING)
        torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)


def test_a_captured_pass_reads_no_rows_and_makes_no_shape_that_depends_on_the_tokens() -> None:
    """On the meta device nothing can be read, as in a captured graph: a shape that depended on values would fail."""
    on = torch.device("meta")
    w = Experts(*(torch.empty(size, device=on) for size in ((8, 64), (8, 96, 64), (8, 64, 48))), 3, True, True)
    x = torch.empty(20, 64, device=on)
    for product in (
        experts._by_masking,
        experts._by_gathered_weights,
        lambda x, w, ends: x.new_empty(len(x), w.shape[1]),
    ):
        assert experts.apply_experts(x, w, experts.products_of(w, product), experts.TORCH_ROUTING).shape == (20, 64)
    case = GroupedCase(rows=8, experts=8, n=96, k=64)
    assert [name for name in ("grouped_hopper", "torch_grouped_mm") if usable(case, name)] != []
    assert not usable(case, "torch_grouped_loop")


def test_planned_products_are_called(random_ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    variant, rows = registry.variant("torch_grouped_loop"), []
    build = variant.build

    def recorded(case: GroupedCase, params: dict[str, Any]) -> Any:
        function = build(case, params)

        def call(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            rows.append((len(x), *w.shape))
            return function(x, w, ends)

        return call

    monkeypatch.setattr(variant, "build", recorded)
    cases = [GroupedCase(rows=3, experts=8, n=n, k=k, dtype="fp32") for n, k in ((96, 64), (64, 48))]
    model = load("qwen3-moe")
    expected = EagerRunner(model).generate(random_ids[:1, :20], 5).tokens
    runner = applied(model, [planned(case, "torch_grouped_loop") for case in cases])
    assert runner.generate(random_ids[:1, :20], 5).tokens == expected
    assert {(3 * tokens, 8, n, k) for tokens in (1, 64) for n, k in ((96, 64), (64, 48))} <= set(rows)


@pytest.mark.parametrize(("name", "weights"), [("gpt-oss", "mxfp4"), ("qwen3-moe", "int8")])
def test_a_model_with_experts_in_fewer_bits_is_the_dequantised_one(name, weights, random_ids, monkeypatch):
    """The kernel runs on the CPU in steps, and transformers with the values that the codes stand for."""
    variant = registry.variant(f"grouped_{weights}")
    monkeypatch.setattr(variant, "build", on_cpu)
    count = "num_local_experts" if name == "gpt-oss" else "num_experts"
    config = CONFIGS[name] | {count: 4, "num_experts_per_tok": 4, "num_hidden_layers": 1, "layer_types": None}
    model, exact = (runners.load(None, config, seed=3, generated=True, dtype="bf16", device="cpu") for _ in range(2))
    for item in (exact, model) if weights == "mxfp4" else (exact,):
        own = experts.experts_of(item.config, item.model.layers[0].mlp)
        for w in (own.gate_up, own.down):
            w.copy_(values(quantise_absmax(w.flatten(0, 1), weights)).view_as(w))
    w = Decoder(model).layers[0].mlp
    assert isinstance(w, Experts)
    ops = [
        planned_op(case.model_copy(update={"weights": weights}), variant.name, {"warps": 2})
        for case in few_expert_cases(w, 1, "bf16")
    ]
    variants = BoundVariants(ops, GPUS["h200"])
    runner = KernelsRunner(model, {"weights": weights}, variants)
    runner.prepare(1, 8, 4)
    ids = random_ids[:1, :6]
    expected = EagerRunner(exact).logits(ids).float()
    assert (runner.logits(ids).float() - expected).norm() < 0.01 * expected.norm()
    assert variants.names >= {variant.name}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("qwen3-moe", {"mlp_only_layers": [1]}, "some layers have experts and others none"),
        ("qwen3-moe", {"decoder_sparse_step": 2}, "some layers have experts and others none"),
        ("olmoe", {"clip_qkv": 8.0}, "clip_qkv 8.0 limits q, k and v"),
    ],
)
def test_what_the_decoder_cannot_run_is_a_sentence(name: str, change: dict[str, Any], said: str) -> None:
    assert said in str(refusal(skeleton(CONFIGS[name] | change, "fp32")))


def test_a_model_of_no_sparse_layer_is_a_dense_one(random_ids: torch.Tensor) -> None:
    model = load(CONFIGS["qwen3-moe"] | {"mlp_only_layers": [0, 1, 2]})
    expected = EagerRunner(model).generate(random_ids[:1, :20], 5).tokens
    assert refusal(model) is None
    assert applied(model, []).generate(random_ids[:1, :20], 5).tokens == expected


@pytest.mark.parametrize("name", SPARSE)
def test_no_mixture_is_rounded(name: str) -> None:
    options = {"weights": "fp8", "rounding": {"method": "gptq"}}
    plan = Plan(model_digest="", gpu="cpu", runner="kernels", dtype="fp32", options=options)
    with pytest.raises(ValueError, match=r"^weights fp8: experts are held in int8 or mxfp4 alone$"):
        runners.apply(load(name), plan)


@pytest.mark.parametrize(("count", "chosen"), [(128, 8), (512, 10)])
def test_the_routing_compiles_for_hopper_without_spilling(count: int, chosen: int) -> None:
    from kernels.model import experts_triton as kernels

    w = Experts(*(torch.empty(count, 1) for _ in range(3)), chosen, True, True)
    route = {"logits": "*bf16", "topk_weights": "*fp32", "topk_ids": "*i32", "experts": "i32"}
    assert stack_bytes(kernels._route_tokens, route, {"C": kernels.constants_of(w)}, 1, 3) == 0
    names = {"logits": "*bf16", "topk_weights": "*fp32", "token": "*i64", "offs": "*i32", "inverse": "*i64"}
    few = names | {"tokens": "i32", "experts": "i32"}
    own = kernels.constants_of(w)
    most = min(kernels.FEW_ROWS, kernels.FEW_PAIRS // own.BLOCK) // own.TOP_K_BLOCK
    assert stack_bytes(kernels._place_tokens, few, {"C": own._replace(TOKENS=most)}, kernels.WARPS, 3) == 0
    order = {"topk_ids": "*i32", "token": "*i64", "offs": "*i32", "inverse": "*i64", "rows": "i32"}
    constants = {"TOP_K": chosen, "BLOCK": kernels.BLOCKS[-1]}
    assert stack_bytes(kernels._order_rows, order, constants, kernels.WARPS, 3) == 0
    combine = {"y": "*bf16", "topk_weights": "*fp32", "inverse": "*i64", "out": "*bf16"}
    combine |= {"hidden": "i32:16", "stride": "i32:16"}
    constants = {"TOP_K": chosen, "COLUMNS": kernels.COLUMNS}
    assert stack_bytes(kernels._combine_rows, combine, constants, kernels.WARPS, 3) == 0


def test_a_skewed_router_chooses_fewer_experts_and_what_they_read_is_counted() -> None:
    config = CONFIGS["qwen3-moe"] | {"num_experts": 64}
    even, skewed = (runners.load(None, config, generated=True, dtype="fp32", device="cpu") for _ in range(2))
    skew_routers(skewed, 2.0)
    ids = torch.randint(even.config.vocab_size, (4, 16), generator=torch.Generator().manual_seed(5))
    counts = []
    for model in (even, skewed):
        with count_choices(model, 4) as chosen:
            model(ids)
        counts.append(chosen)
    first = even.model.layers[0].mlp
    hidden: list[torch.Tensor] = []
    hook = first.register_forward_pre_hook(lambda _, given: hidden.append(given[0]))
    even(ids)
    hook.remove()
    numbers = first.gate(hidden[0].flatten(0, 1))[2].view(4, 16, -1)
    assert counts[0].distinct[0] == sum(len(numbers[:, at].unique()) for at in range(16)) / 16
    assert counts[1].mean < counts[0].mean
    assert counts[1].share_of_most(0.1) > 1.5 * counts[0].share_of_most(0.1)
    case = model_case(even, "mine", "bf16", 4, 16, 8)
    read = with_experts(case, even, counts[0])
    expert = 3 * 64 * 48 * even.config.num_hidden_layers
    assert read.bytes_per_token == pytest.approx(case.bytes_per_token + 2 * expert * (counts[0].mean - 3))
    assert len(even.model.layers[0].mlp.gate._forward_hooks) == 0


class TiledByTorch:
    """What `grouped_hopper` does with tiles, by torch; `wrong` takes the rows of the gate for those of up."""

    def __init__(self, wrong: bool) -> None:
        self.wrong = wrong

    def build(self, case: GroupedCase, params: dict[str, Any]) -> Grouped:
        def product(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            cores = w.unflatten(-1, (2, 2, 8, 8))  # expert, row tile, column tile; column half, row half, row, column
            rows = cores.permute(0, 1, 4, 5, 2, 3, 6).reshape(case.experts, case.weight_rows, case.k)
            y = experts.torch_grouped(x, rows, ends)
            if case.epilogue == "none":
                return y
            gate, up = y.unflatten(1, (-1, 2, 8)).flip(2 if self.wrong else []).unbind(2)
            return (F.silu(gate) * up).flatten(1)

        assert params == {"tiled": True}
        return product


@pytest.mark.parametrize("name", [name for name in SPARSE if name != "gpt-oss"])
def test_tiles_are_taken_only_where_their_products_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(name)
    mlp, tiles = model.model.layers[0].mlp, expert_tiles.tiles_of(model)
    for wrong in (False, True):
        monkeypatch.setattr(expert_tiles.registry, "variant", lambda _, wrong=wrong: TiledByTorch(wrong))
        if wrong:
            with pytest.raises(ValueError, match="the product of tiles differs from torch's: op=grouped"):
                expert_tiles.check_products(model.config, mlp, tiles[0])
        else:
            expert_tiles.check_products(model.config, mlp, tiles[0])


@pytest.mark.parametrize(("tiles_ms", "taken"), [(1.04, True), (1.06, False)])
def test_tiles_are_taken_only_where_they_are_no_slower_than_rows(tiles_ms, taken, monkeypatch):
    built: list[tuple[GroupedCase, dict[str, Any]]] = []
    monkeypatch.setattr(expert_tiles.registry, "variant", lambda name: SimpleNamespace(build=build))

    def build(case: GroupedCase, params: dict[str, Any]) -> Grouped:
        built.append((case, params))
        return lambda x, w, ends: x

    def times(calls: dict[str, Any], *_: Any) -> dict[str, Any]:
        for call in calls.values():
            call()
        return {"rows": SimpleNamespace(ms=1.0), "tiles": SimpleNamespace(ms=tiles_ms)}

    monkeypatch.setattr(expert_tiles, "time_interleaved", times)
    model = load(SPARSE[0])
    mlp, tiles = model.model.layers[0].mlp, expert_tiles.tiles_of(model)
    with nullcontext() if taken else pytest.raises(ValueError, match=r"for 8 tokens take 1\.06 ms of tiles, 1 of rows"):
        expert_tiles.check_times(model.config, mlp, tiles[0])
    assert [params.get("tiled", False) for _, params in built[:4]] == [False, False, True, True]
    assert {case.epilogue for case, params in built if params} == {"swiglu", "none"}
