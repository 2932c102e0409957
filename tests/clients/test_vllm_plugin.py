"""The plug-in of vLLM, as far as it runs without vLLM: the step of decodes, and whose plan it takes."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import kernel_workbench_vllm
import pytest
import torch
from kernel_workbench_vllm import decode_step, vllm_interface
from kernel_workbench_vllm.decode_step import (
    MAX_ROWS,
    MAX_ROWS_OF_SEVERAL,
    DecodeStep,
    DecodeSteps,
    DraftWriter,
    EngineModel,
    Pages,
    plan_for,
    planned_ops,
)
from transformers import AutoConfig, AutoModelForCausalLM

from kernels.hardware import GPUS
from kernels.measure.gpu_entry import gpu_of
from kernels.model.decoder import Decoder, LayerShape
from kernels.model.experts import Experts
from kernels.model.layer_weights import Dense, Weights
from kernels.ops import TORCH_VARIANTS
from kernels.plan import Plan, Serving
from kernels.runners.plan_files import PlanRefused, digested
from kernels.server.execution.compiling import NotedVariants
from workers.wording.serving import IN_VLLM

PLAN = Plan(model_digest="", gpu="h200", runner="kernels")
SMALL = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16}
SMALL |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
MIXTURE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}


@pytest.fixture(params=["qwen2", "qwen3_moe"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(3)
    more = MIXTURE if request.param == "qwen3_moe" else {}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(request.param, **SMALL, **more))
    for name, weight in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(weight, 1, 0.2)
    return model.eval().requires_grad_(False)


def empty_caches(pages: int) -> list[Any]:
    """Keys and values of both layers."""
    return [vllm_interface.halves(torch.zeros(pages, 2, 8, 2 * 16)) for _ in range(2)]


def engine_model(model: Any) -> EngineModel:
    own = Decoder(model)
    return EngineModel(own.embedding, own.layers, own.shapes, own.norm, own.lm_head, own.rope_table(64))


def test_a_step_on_vllms_pages_is_the_models(model: Any) -> None:
    steps = DecodeSteps(engine_model(model), PLAN, GPUS["cpu"], [2, MAX_ROWS + 1], Pages(8, 64))
    assert list(steps.steps) == [2]
    pages = [torch.zeros(20, 8, 2, 2 * 16).permute(0, 2, 1, 3) for _ in range(2)]  # as vLLM keeps them
    caches = [vllm_interface.halves(item) for item in pages]
    table = torch.arange(3, 19, dtype=torch.int32).view(2, 8)
    ids = torch.randint(97, (2, 10))
    for at in range(10):
        hidden = steps.steps[2](ids[:, at].int(), torch.full((2,), at), table, caches)
    torch.testing.assert_close(hidden, model.model(ids).last_hidden_state[:, -1], atol=1e-5, rtol=1e-5)
    used = [page for page in range(20) if bool(pages[0][page].any())]
    assert used == [3, 4, 11, 12]


def test_several_places_are_written_with_what_the_model_chooses(model: Any) -> None:
    sizes = [2, MAX_ROWS_OF_SEVERAL, MAX_ROWS_OF_SEVERAL + 1]
    steps = DecodeSteps(engine_model(model), PLAN, GPUS["cpu"], sizes, Pages(8, 64), choose=True)
    assert list(steps.steps) == sizes[:2]
    caches = empty_caches(20)
    table = torch.arange(3, 19, dtype=torch.int32).view(2, 8)
    ids = torch.tensor([[5, -1, -1, -1], [7, 8, 9, 10]], dtype=torch.int32)  # a decode, and a prompt of four tokens
    hidden = steps.steps[2].several(ids, torch.arange(4).expand(2, 4), table, caches)
    assert ids[1].tolist() == [7, 8, 9, 10]
    expected = greedy(model, 5)
    assert ids[0].tolist() == expected
    torch.testing.assert_close(hidden, model.model(ids.long()).last_hidden_state, atol=1e-5, rtol=1e-5)
    unread = empty_caches(20)
    ids[0, 1:] = -1
    hidden = steps.steps[2].several(ids, torch.arange(4).expand(2, 4), table, unread, last=False)
    assert ids[0].tolist() == expected
    assert hidden.shape[1] == 3  # the last place has its id alone
    assert not any(keys[3, 3].any() for keys, _ in unread)


def planned_of(caches: list[torch.Tensor], metadata: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What vLLM calls for a pass of four places, with a layer on each of these pages and a pass as `metadata` says."""
    context: Any = ModuleType("vllm.forward_context")
    context.get_forward_context = lambda: SimpleNamespace(attn_metadata={"first": metadata})
    monkeypatch.setitem(sys.modules, "vllm.forward_context", context)
    attns = [SimpleNamespace(layer_name="first", kv_cache=cache) for cache in caches]
    layers = [SimpleNamespace(self_attn=SimpleNamespace(attn=attn)) for attn in attns]
    planned: Any = object.__new__(vllm_interface.Planned)
    planned._model, planned._tried, planned.places = [SimpleNamespace(model=SimpleNamespace(layers=layers))], True, 4
    return planned


class RecordedStep:
    """A step that answers without a model."""

    def __call__(self, *args: Any) -> torch.Tensor:
        return torch.ones(2, 4)

    def several(self, *args: Any) -> torch.Tensor:
        return torch.ones(2, 4, 4)


@pytest.mark.parametrize(
    ("given", "actual", "longest", "runs"),
    [
        (8, 8, 4, True),  # two decodes of four tokens each
        (2, 2, 1, True),  # of one token each
        (8, 5, 4, False),  # one token and four, padded
        (6, 6, 3, False),
        (4, 4, 3, False),  # one token and three
    ],
)
def test_only_sequences_of_equal_lengths_are_run(
    given: int, actual: int, longest: int, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = SimpleNamespace(block_table=torch.zeros(2, 8), max_query_len=longest, num_actual_tokens=actual)
    planned = planned_of([torch.zeros(20, 2, 8, 32)], metadata, monkeypatch)
    planned._steps, planned._drafts, planned.lengths = SimpleNamespace(steps={2: RecordedStep()}), None, None
    ids = torch.full((given,), -1, dtype=torch.int32)
    assert (planned.hidden(ids, torch.zeros(given)) is not None) == runs
    assert runs or bool((ids == 0).all()), "vLLM computes these itself, and takes ids only"


def test_drafts_beside_a_prompt_are_written_before_vllm_computes_the_pass(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decode of four tokens and a prompt of six, as vLLM's runner orders them, with two ids of padding."""
    caches = [torch.zeros(20, 2, 8, 2 * 16) for _ in range(2)]
    table = torch.arange(3, 19, dtype=torch.int32).view(2, 8)
    metadata = SimpleNamespace(block_table=table, max_query_len=6, num_actual_tokens=10)
    planned = planned_of(caches, metadata, monkeypatch)
    planned._steps = DecodeSteps(engine_model(model), PLAN, GPUS["cpu"], [2, 4], Pages(8, 64), choose=True)
    planned._drafts = DraftWriter(planned._steps.steps, 4, Pages(8, 64))
    planned.lengths, prompt = [4, 6], [9, 8, 7, 6, 5, 4]
    given = [5, -1, -1, -1, *prompt, 0, 0]
    ids, positions = torch.tensor(given, dtype=torch.int32), torch.tensor([*range(4), *range(6), 0, 0])
    assert planned.hidden(ids, positions) is None
    expected = greedy(model, 5)
    assert ids.tolist() == [*expected, *prompt, 0, 0]
    assert [page for page in range(20) if bool(caches[0][page].any())] == [0, 3], "page 0 is for padding"
    ids = torch.tensor(given, dtype=torch.int32)
    assert planned.hidden(ids, positions) is None
    assert ids.tolist()[:4] == [5, 0, 0, 0], "of an unknown pass, such as a graph's, nothing is written"


def test_fewer_decodes_than_before_leave_the_pages_of_the_others_alone(model: Any) -> None:
    steps = DecodeSteps(engine_model(model), PLAN, GPUS["cpu"], [4], Pages(8, 64), choose=True).steps
    drafts, table = DraftWriter(steps, 4, Pages(8, 64)), torch.arange(3, 27, dtype=torch.int32).view(3, 8)
    for decodes, used in ((3, [0, 3, 11, 19]), (1, [0, 3])):
        caches = empty_caches(40)
        ids = torch.full((decodes, 4), -1, dtype=torch.int32)
        ids[:, 0] = torch.tensor([6, 7, 8][:decodes])
        drafts.write(ids, torch.arange(4).expand(decodes, 4), table[:decodes], lambda caches=caches: caches)
        assert ids[0].tolist() == greedy(model, 6)
        assert [page for page in range(40) if bool(caches[0][0][page].any())] == used
    ids = torch.full((5, 4), -1, dtype=torch.int32)
    drafts.write(ids, torch.zeros(5, 4, dtype=torch.int64), table, lambda: pytest.fail("no step has so many rows"))
    assert bool((ids == -1).all())


def greedy(model: Any, first: int) -> list[int]:
    """Four tokens of a sequence that begins with `first`."""
    ids = [first]
    for _ in range(3):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids


class NoGraphs:
    """Drafts whose graphs CUDA refuses."""

    def capture(self, caches: Any) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")


def test_vllm_goes_on_where_drafts_cannot_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, lines = planned_of([torch.zeros(20, 2, 8, 32)], None, monkeypatch), list[str]()
    planned._drafts = NoGraphs()
    planned._log = SimpleNamespace(warning=lambda text, *args: lines.append(text % args))
    vllm_interface.PLANNED.add(planned)
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=2), num_speculative_tokens=3)
    vllm_interface.UnwrittenDrafts(config, torch.device("cpu")).capture()
    (line,) = lines
    assert line.startswith("KERNELS_SEVERAL_TOKENS: ")
    assert line.endswith("not in CUDA graphs, so slower: operation not permitted when stream is capturing")


@pytest.mark.gpu
@torch.inference_mode()
def test_graphs_write_what_their_kernels_write_on_a_gpu() -> None:
    gpu, pages = gpu_of(torch.device("cuda")), Pages(16, 768)
    torch.manual_seed(5)
    steps = DecodeSteps(one_layer("cuda"), PLAN, gpu, [2, 4], pages, choose=True).steps
    assert list(steps) == [2, 4]
    caches = [[vllm_interface.halves(torch.zeros(20, 8, 16, 128, device="cuda").bfloat16())] for _ in range(2)]
    drafts = [DraftWriter(steps, 4, pages) for _ in caches]
    drafts[1].capture(caches[1])
    table = torch.arange(1, 145, dtype=torch.int32, device="cuda").view(3, 48) % 20
    for decodes, begin in ((3, 0), (1, 4), (2, 4)):
        written = []
        for writer, own in zip(drafts, caches, strict=True):
            ids = torch.full((decodes, 4), -1, dtype=torch.int32, device="cuda")
            ids[:, 0] = torch.arange(decodes, device="cuda")
            position = torch.arange(begin, begin + 4, device="cuda").expand(decodes, 4)
            writer.write(ids, position, table[:decodes], lambda own=own: own)
            written.append(ids.tolist())
        assert written[0] == written[1]
        assert min(map(min, written[0])) >= 0
        for eager, replayed in zip(*(cache[0] for cache in caches), strict=True):
            assert torch.equal(eager, replayed)


def one_layer(device: str, like_qwen3: bool = False) -> EngineModel:
    """One layer of Llama-3.2-1B's sizes, or with norms of its heads and experts, as in Qwen3-MoE."""
    hidden, heads, kv_heads, head_dim, wide = 2048, 32, 8, 64, 8192

    def empty(*size: int) -> torch.Tensor:
        return torch.empty(*size, device=device, dtype=torch.bfloat16).normal_(std=0.02)

    mlp: Dense | Experts = Dense((empty(2 * wide, hidden),), (None,), empty(hidden, wide), None)
    if like_qwen3:
        mlp = Experts(empty(128, hidden), empty(128, 1536, hidden), empty(128, hidden, 768), 8, True, False)
    qkv, o = empty((heads + 2 * kv_heads) * head_dim, hidden), empty(hidden, heads * head_dim)
    norms = (empty(head_dim), empty(head_dim)) if like_qwen3 else (None, None)
    layer = Weights(empty(hidden), (qkv,), (None,), *norms, o, None, empty(hidden), mlp)
    shape = LayerShape(heads, kv_heads, head_dim, 1e-5, head_dim**-0.5)
    table = empty(768, head_dim), empty(768, head_dim)
    return EngineModel(empty(128_256, hidden), [layer], [shape], empty(hidden), empty(128_256, hidden), table)


@pytest.mark.parametrize(("rows", "product"), [(16, "skinny"), (24, "small_gemm")])
def test_on_a_gpu_every_product_and_attention_are_this_librarys(rows: int, product: str) -> None:
    engine = one_layer("meta")
    assert variants_of(engine, rows, Pages(16, 768)) == {product, "step_hopper"}


def variants_of(engine: EngineModel, rows: int, pages: Pages, plan: Plan = PLAN, choose: bool = False) -> set[str]:
    """The names of what is bound for a step on an H200."""
    noted = NotedVariants(planned_ops(engine, plan, GPUS["h200"], rows, pages), GPUS["h200"])
    DecodeStep(engine, noted, rows, pages, choose)
    return set(noted.names)


def test_heads_with_norms_and_experts_are_this_librarys_too() -> None:
    names = {"skinny", "step_hopper", "grouped_hopper", "gated_triton"}
    assert variants_of(one_layer("meta", like_qwen3=True), 8, Pages(16, 768)) == names


@pytest.mark.parametrize("like_qwen3", [False, True])
def test_long_sequences_are_rotated_and_attended_to_apart(like_qwen3: bool) -> None:
    names = variants_of(one_layer("meta", like_qwen3), 8, Pages(16, 131_072))
    assert {"rope_triton", "decode_split"} < names
    assert not names & {"step_hopper", *TORCH_VARIANTS}


@pytest.mark.parametrize(("rows", "product"), [(8, "skinny_int8"), (64, "small_gemm_int8"), (128, "small_gemm")])
def test_a_plan_with_int8_weights_has_them_in_the_layers_alone(rows: int, product: str) -> None:
    plan = PLAN.model_copy(update={"options": {"weights": "int8"}})
    names = variants_of(one_layer("meta"), rows, Pages(16, 768), plan, choose=True)
    assert names - {"lm_head_skinny"} == {product, "step_hopper"}


def test_what_the_plan_excludes_is_not_used() -> None:
    plan = PLAN.model_copy(update={"serving": Serving(exclude=["skinny"])})
    assert variants_of(one_layer("meta"), 8, Pages(16, 768), plan) & set(TORCH_VARIANTS) == {"torch_linear"}


def test_a_plan_of_another_gpu_or_model_is_refused(tmp_path: Path) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL}
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    *_, digest = digested(folder, 0)
    path = tmp_path / "plan.json"
    for change, said in (
        ({}, ""),
        ({"gpu": "h100"}, "it was made for 1 h100, and this is h200"),
        ({"model_digest": "0" * 64}, "the plan is for the model 000000000000"),
        ({"options": {"weights": "fp8"}}, "rounds weights"),
    ):
        path.write_text(PLAN.model_copy(update={"model_digest": digest, **change}).model_dump_json())
        if said:
            with pytest.raises(PlanRefused, match=said):
                plan_for(path, folder, GPUS["h200"])
        else:
            assert plan_for(path, folder, GPUS["h200"]).model_digest == digest


def test_the_product_offers_it_for_the_models_that_it_runs() -> None:
    assert set(IN_VLLM) == set(vllm_interface.MODELS)


def test_without_a_plan_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel_workbench_vllm.PLAN, raising=False)
    monkeypatch.setattr(vllm_interface, "register_models", lambda: pytest.fail("registered"))
    kernel_workbench_vllm.register()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the plug-in writes into vLLM's log."""
    lines: list[str] = []
    logger: Any = ModuleType("vllm.logger")
    logger.init_logger = lambda _: SimpleNamespace(warning=lambda text, *args: lines.append(text % args))
    monkeypatch.setitem(sys.modules, "vllm.logger", logger)
    return lines


def test_another_version_of_vllm_goes_on_without_it(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> None:
    monkeypatch.setattr(vllm_interface, "version", lambda _: "0.27.1")
    monkeypatch.setenv(kernel_workbench_vllm.PLAN, "plan.json")
    kernel_workbench_vllm.register()
    (line,) = warnings
    assert line.startswith("KERNELS_PLAN is not used: ")
    assert line.endswith("vLLM 0.26.0, and this is 0.27.1")


class UnquantizedLinearMethod:
    """Named as vLLM's."""


class UnquantizedFusedMoEMethod:
    """Named as vLLM's."""

    def __init__(self, backend: str) -> None:
        self.unquantized_backend = SimpleNamespace(name=backend)


def served(**changes: Any) -> tuple[Any, Any]:
    """A model and a configuration with the attributes of vLLM's that a refusal reads."""
    given = {"method": UnquantizedLinearMethod(), "backend": "FLASH_ATTN", "neox": True, "window": None}
    given |= {"lora": None, "world": 1, "cache": "auto", "dtype": torch.bfloat16, "mixed": "PIECEWISE"}
    given |= {"experts": "", "shared": None, "scaled": False, **changes}
    product = SimpleNamespace(quant_method=given["method"])
    backend = SimpleNamespace(get_name=lambda: given["backend"])
    attn = SimpleNamespace(get_attn_backend=lambda: backend, sliding_window=given["window"])
    rotary = SimpleNamespace(is_neox_style=given["neox"], rotary_dim=64)
    attention = SimpleNamespace(
        qkv_proj=product, o_proj=product, attn=attn, rotary_emb=rotary, head_dim=64, scaling=0.125,
        do_llama_4_scaling=given["scaled"],
    )  # fmt: skip
    mlp = SimpleNamespace(gate_up_proj=product, down_proj=product)
    if given["experts"]:
        routed = SimpleNamespace(quant_method=UnquantizedFusedMoEMethod(given["experts"]))
        experts = SimpleNamespace(routed_experts=routed)
        mlp = SimpleNamespace(gate=product, experts=experts, shared_expert=given["shared"], n_redundant_experts=0)
    layer = SimpleNamespace(self_attn=attention, mlp=mlp)
    config = SimpleNamespace(
        lora_config=given["lora"],
        parallel_config=SimpleNamespace(world_size=given["world"]),
        cache_config=SimpleNamespace(cache_dtype=given["cache"]),
        model_config=SimpleNamespace(dtype=given["dtype"]),
        compilation_config=SimpleNamespace(
            cudagraph_mode=SimpleNamespace(mixed_mode=lambda: SimpleNamespace(name=given["mixed"]))
        ),
    )
    return SimpleNamespace(model=SimpleNamespace(layers=[layer])), config


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"lora": object()}, "the model is served with LoRA"),
        ({"world": 2}, "the model is sharded over several GPUs"),
        ({"method": SimpleNamespace()}, "the products of its layers are of SimpleNamespace"),
        ({"cache": "fp8"}, "the KV cache is in fp8"),
        ({"backend": "FLASHINFER"}, "the KV cache has the layout of FLASHINFER"),
        ({"dtype": torch.float32}, "dtype is torch.float32"),
        ({"neox": False}, "SimpleNamespace does not rotate whole heads by halves"),
        ({"window": 4096}, "attention has a window"),
        ({"mixed": "FULL"}, "one CUDA graph is for decodes and prompts"),
        ({"experts": "TRITON"}, None),
        ({"experts": "FLASHINFER_CUTLASS"}, "its experts have the layout of FLASHINFER_CUTLASS"),
        ({"experts": "TRITON", "shared": object()}, "experts are shared, or have replicas"),
        ({"scaled": True}, "layers have other norms or scales"),
    ],
)
def test_what_vllm_keeps_to_itself_is_said(change: dict[str, Any], said: str | None) -> None:
    assert vllm_interface.refusal(*served(**change)) == said


@pytest.mark.parametrize(
    ("variable", "method", "several"), [("1", "ngram_gpu", True), ("", "ngram_gpu", False), ("1", "eagle", False)]
)
def test_several_tokens_a_pass_are_asked_for(
    variable: str, method: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(vllm_interface.SEVERAL, variable)
    config = SimpleNamespace(speculative_config=SimpleNamespace(method=method), use_v2_model_runner=True)
    assert vllm_interface.writes_drafts(config) == several
    assert not vllm_interface.writes_drafts(SimpleNamespace(speculative_config=None))


def test_vllms_older_runner_keeps_its_own_drafts(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> None:
    monkeypatch.setenv(vllm_interface.SEVERAL, "1")
    drafts = SimpleNamespace(method="ngram_gpu")
    config = SimpleNamespace(speculative_config=drafts, use_v2_model_runner=False, num_speculative_tokens=3)
    assert vllm_interface.Planned(None, config).places == 1
    (line,) = warnings
    assert line.startswith("KERNELS_SEVERAL_TOKENS is not used")
    assert vllm_interface.V2_RUNNER in line


def test_the_wheel_is_one_of_vllms_general_plug_ins() -> None:
    import tomllib

    project = tomllib.loads((Path(decode_step.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["vllm.general_plugins"]["kernel_workbench"].split(":")
    assert getattr(sys.modules[module], name) is kernel_workbench_vllm.register
