"""All that is used of vLLM's interfaces, of the versions in TRIED; with another one vLLM goes on alone. MODELS become
subclasses whose `forward` runs a step of decodes by `decode_step`, which vLLM captures as its own. All else is vLLM's.
"""

import os
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from kernel_workbench_vllm.decode_step import Caches, DecodeSteps, DraftWriter, EngineModel, Pages, plan_for
from kernels.measure.gpu_entry import gpu_of
from kernels.model.decoder import LayerShape
from kernels.model.experts import Experts
from kernels.model.layer_weights import Dense, Weights
from kernels.runners.plan_files import PlanRefused

TRIED = ("0.26.0",)
SEVERAL = "KERNELS_SEVERAL_TOKENS"
"""The environment variable that lets a pass make several tokens. Without it the option means vLLM's own drafts."""
V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""vLLM's variable that chooses Model Runner V2, which it takes by itself for dense models only."""
DRAFTS = "ngram_gpu"
"""vLLM's name of drafts without a model, with which it schedules asynchronously."""
LOGGER = "vllm.kernel_workbench"
"""Of vLLM's loggers, so that its log shows what this one says."""
UNQUANTISED = {"UnquantizedLinearMethod", "UnquantizedFusedMoEMethod"}
"""vLLM's names of methods whose weights are the model's own."""
TABLE_TOKENS = 128
"""vLLM's tables of blocks have columns for a multiple of so many tokens."""
MODELS = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
}
"""vLLM's module of each architecture."""
PREFIX = "Planned"
"""Of the classes of this module that stand for vLLM's."""
EXPERTS_LAYOUT = "TRITON"
"""vLLM's backend of experts whose weights stay as the model has them: gate first, [experts, out, in]."""


def register_models() -> None:
    """Tells vLLM of the classes below; says in its log where that version of vLLM was not tried."""
    from vllm.logger import init_logger

    if (installed := version("vllm")) not in TRIED:
        init_logger(LOGGER).warning(
            "KERNELS_PLAN is not used: this plug-in was tried with vLLM %s, and this is %s", ", ".join(TRIED), installed
        )
        return
    from vllm import ModelRegistry

    for architecture in MODELS:
        ModelRegistry.register_model(architecture, f"{__name__}:{PREFIX}{architecture}")
    if os.environ.get(SEVERAL):
        _take_drafts()


def wants_drafts(config: Any) -> bool:
    """Whether a pass is to make several tokens of each sequence, as drafts of a method that Model Runner V2 has not."""
    enabled = os.environ.get(SEVERAL) and config.speculative_config is not None
    return bool(enabled) and config.speculative_config.method == DRAFTS


def writes_drafts(config: Any) -> bool:
    """Whether a pass makes them. vLLM's older runner has drafts from n-grams of its own."""
    return wants_drafts(config) and config.use_v2_model_runner


def _take_drafts() -> None:
    """Lets Model Runner V2 take `ngram_gpu`, with `UnwrittenDrafts` in the place of a speculator."""
    import sys

    from vllm.config import VllmConfig
    from vllm.v1.worker.gpu import spec_decode

    unsupported, speculator = VllmConfig._get_v2_model_runner_unsupported_features, spec_decode.init_speculator

    def without_drafts(config: Any) -> list[str]:
        return [item for item in unsupported(config) if not (wants_drafts(config) and DRAFTS in item)]

    def init_speculator(config: Any, device: torch.device) -> Any:
        return UnwrittenDrafts(config, device) if wants_drafts(config) else speculator(config, device)

    VllmConfig._get_v2_model_runner_unsupported_features = without_drafts
    spec_decode.init_speculator = init_speculator
    if runner := sys.modules.get("vllm.v1.worker.gpu.model_runner"):
        runner.init_speculator = init_speculator  # type: ignore[attr-defined]


class UnwrittenDrafts:
    """Drafts by the pass in which vLLM verifies them: it computes a sequence's tokens one after the other, so each is
    what the model chooses, and vLLM's sampler judges it. With structured output they are 0: its masks come before.
    """

    supports_mm_inputs = False
    draft_logits = None

    def __init__(self, config: Any, device: torch.device) -> None:
        size = config.scheduler_config.max_num_seqs, config.num_speculative_tokens
        self.model = torch.nn.Module()
        self._unwritten = torch.full(size, -1, dtype=torch.int64, device=device)
        self._zeros = torch.zeros_like(self._unwritten)

    def init_cudagraph_manager(self, cudagraph_mode: Any) -> None:
        """It has no graphs."""

    def capture(self) -> None:
        """vLLM calls this after it has captured its own graphs."""
        for planned in PLANNED:
            planned.capture()

    def propose(self, input_batch: Any, *others: Any, **named: Any) -> Tensor:
        """The drafts [sequences, drafts] of the next step."""
        drafts = self._zeros if input_batch.has_structured_output_reqs else self._unwritten
        return drafts[: input_batch.num_reqs]


def __getattr__(name: str) -> Any:
    """The class that stands for one of vLLM's, `PlannedLlamaForCausalLM` and so on, which needs vLLM's models."""
    architecture = name.removeprefix(PREFIX)
    if architecture == name or architecture not in MODELS:
        raise AttributeError(name)
    module = import_module(f"vllm.model_executor.models.{MODELS[architecture]}")
    globals()[name] = planned_class(name, getattr(module, architecture))
    return globals()[name]


def planned_class(name: str, model_class: Any) -> Any:
    """A subclass of vLLM's model class that runs the steps of decodes by the plan."""

    def __init__(self: Any, *, vllm_config: Any, prefix: str = "", **others: Any) -> None:
        model_class.__init__(self, vllm_config=vllm_config, prefix=prefix, **others)
        self.planned = Planned(self, vllm_config)

    def forward(
        self: Any,
        input_ids: Any,
        positions: Any,
        intermediate_tensors: Any = None,
        inputs_embeds: Any = None,
    ) -> Any:
        if intermediate_tensors is None and inputs_embeds is None:
            hidden = self.planned.hidden(input_ids, positions)
            if hidden is not None:
                return hidden
        return model_class.forward(self, input_ids, positions, intermediate_tensors, inputs_embeds)

    members = {"__init__": __init__, "forward": forward, "get_model_state_cls": noting_lengths}
    return type(name, (model_class,), {**members, "__module__": __name__})


def noting_lengths(model: Any) -> Any:
    """vLLM's class of the model's state. Where passes have drafts it tells `model` the tokens of each sequence."""
    from vllm.v1.worker.gpu.model_states.default import DefaultModelState

    if model.planned.places == 1:
        return DefaultModelState

    class NotingState(DefaultModelState):  # type: ignore[misc]
        def prepare_attn(self, input_batch: Any, *others: Any, **named: Any) -> Any:
            capturing = named.get("for_capture", False)
            model.planned.lengths = None if capturing else input_batch.num_scheduled_tokens.tolist()
            return super().prepare_attn(input_batch, *others, **named)

    return NotingState


PLANNED: "WeakSet[Planned]" = WeakSet()
"""Those of this process, for `UnwrittenDrafts`: vLLM makes it before the model, and does not tell it the model."""


class Planned:
    """The steps of a model, made in vLLM's memory-measuring pass: weights are loaded, and there are no KV pages."""

    def __init__(self, model: Any, vllm_config: Any) -> None:
        from vllm.logger import init_logger

        # A list hides the model from torch's modules, of which it would become a part of itself.
        self._model, self._config, self._log = [model], vllm_config, init_logger(LOGGER)
        self._steps: DecodeSteps | None = None
        self._drafts: DraftWriter | None = None
        self._tried = False
        self.places = 1 + vllm_config.num_speculative_tokens if writes_drafts(vllm_config) else 1
        """The tokens of each sequence in a step of decodes."""
        if wants_drafts(vllm_config) and self.places == 1:
            self._log.warning(
                "%s is not used: vLLM runs this model by its older runner without %s=1", SEVERAL, V2_RUNNER
            )
        self.lengths: list[int] | None = None
        """The tokens of each sequence in a pass with drafts, those of decodes first; None of a graph that is made."""
        PLANNED.add(self)

    def hidden(self, ids: Tensor, positions: Tensor) -> Tensor | None:
        """The normed hidden states of a step in which every sequence has one token; None where vLLM is to run it."""
        if not self._tried:
            self._tried = True
            self._make()
        hidden = self._hidden(ids, positions) if self._steps is not None else None
        if hidden is None and self.places > 1:
            ids.clamp_(min=0)  # what no step of this library has written is no id
        self.lengths = None
        return hidden

    def _hidden(self, ids: Tensor, positions: Tensor) -> Tensor | None:
        from vllm.forward_context import get_forward_context

        by_layer = get_forward_context().attn_metadata
        if self._steps is None or not isinstance(by_layer, dict):
            return None
        metadata = by_layer[self._model[0].model.layers[0].self_attn.attn.layer_name]
        table, places = metadata.block_table, metadata.max_query_len
        step = self._steps.steps.get(len(table))
        # A piecewise graph pads the tokens of sequences of unlike lengths; a whole one says so of its own padding.
        tokens = {len(ids), metadata.num_actual_tokens, len(table) * places}
        if step is None or places not in (1, self.places) or len(tokens) > 1:
            self._write_drafts(ids, positions, metadata)
            return None
        if places == 1:
            return step(ids, positions, table, self._caches())
        return step.several(ids.view(-1, places), positions.view(-1, places), table, self._caches()).flatten(0, 1)

    def _write_drafts(self, ids: Tensor, positions: Tensor, metadata: Any) -> None:
        """Writes the drafts of the decodes beside prompts, which lead the batch. vLLM then computes the whole pass."""
        if self._drafts is None or self.lengths is None or sum(self.lengths) != metadata.num_actual_tokens:
            return
        if decodes := self.lengths.count(self.places):
            leading = (value[: decodes * self.places].view(-1, self.places) for value in (ids, positions))
            self._drafts.write(*leading, metadata.block_table[:decodes], self._caches)

    def _caches(self) -> Caches:
        return [halves(layer.self_attn.attn.kv_cache) for layer in self._model[0].model.layers]

    def capture(self) -> None:
        """Captures the graphs that write drafts, if there are drafts."""
        if self._drafts is None:
            return
        try:
            self._drafts.capture(self._caches())
        except Exception as error:  # whatever it is, the customer's server goes on
            self._log.warning("%s: drafts beside prompts are not in CUDA graphs, so slower: %s", SEVERAL, error)
        else:
            self._log.info("%s: drafts beside prompts are in CUDA graphs", SEVERAL)

    def _make(self) -> None:
        config = self._config
        try:
            if reason := refusal(self._model[0], config):
                raise PlanRefused(reason)
            gpu = gpu_of(torch.device("cuda"))
            plan = plan_for(Path(os.environ["KERNELS_PLAN"]), Path(config.model_config.model), gpu)
            page_size = config.cache_config.block_size
            capacity = -(-config.model_config.max_model_len // TABLE_TOKENS) * TABLE_TOKENS
            captured = config.compilation_config.cudagraph_capture_sizes or ()
            sizes = {-(-size // self.places) for size in captured}
            model, pages = engine_model(self._model[0], capacity), Pages(page_size, capacity)
            steps = DecodeSteps(model, plan, gpu, sizes, pages, choose=self.places > 1)
            if self.places > 1 and steps.steps:
                self._drafts = DraftWriter(steps.steps, self.places, pages)
            self._steps = steps
        except Exception as error:  # whatever it is, the customer's server goes on
            self._log.warning("KERNELS_PLAN is not used, and vLLM goes on without it: %s", error)
            return
        if not steps.variants:
            self._log.warning("KERNELS_PLAN is not used: no kernel serves all of a step of this model")
        for name, rows in steps.variants.items():
            self._log.info("KERNELS_PLAN: %s in steps of %s sequences", name, ", ".join(map(str, rows)))


def has_experts(mlp: Any) -> bool:
    """Whether the MLP of one of vLLM's layers has experts."""
    return hasattr(mlp, "experts")


def products_of(layer: Any) -> list[Any]:
    """The modules of one of vLLM's layers that multiply."""
    attention, mlp = layer.self_attn, layer.mlp
    of_mlp = (mlp.gate, mlp.experts.routed_experts) if has_experts(mlp) else (mlp.gate_up_proj, mlp.down_proj)
    return [attention.qkv_proj, attention.o_proj, *of_mlp]


def shares_experts(layer: Any) -> bool:
    """Whether a layer has experts that all tokens use, or copies of experts."""
    mlp = layer.mlp
    return has_experts(mlp) and (mlp.shared_expert is not None or mlp.n_redundant_experts > 0)


def differs_from_llama(layer: Any) -> bool:
    """Whether one of Mistral's layers has what only some of its models have."""
    return getattr(layer, "ada_rms_norm_t_cond", None) is not None or getattr(
        layer.self_attn, "do_llama_4_scaling", False
    )


def halves(cache: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values [pages, page_size, kv_heads, head_dim] of vLLM's [pages, kv_heads, page_size, 2 · head_dim]."""
    keys, values = cache.transpose(1, 2).chunk(2, dim=-1)
    return keys, values


def refusal(model: Any, config: Any) -> str | None:
    """Why vLLM keeps this model to itself, in a sentence; None if the plan may run it."""
    if config.lora_config is not None:
        return "the model is served with LoRA"
    if config.parallel_config.world_size > 1:
        return "the model is sharded over several GPUs"
    layers, cache = model.model.layers, config.cache_config.cache_dtype
    methods = {type(product.quant_method).__name__ for layer in layers for product in products_of(layer)}
    experts = [layer.mlp.experts.routed_experts for layer in layers if has_experts(layer.mlp)]
    layouts = {expert.quant_method.unquantized_backend.name for expert in experts} if methods <= UNQUANTISED else set()
    attention = layers[0].self_attn
    rotary, backend = attention.rotary_emb, attention.attn.get_attn_backend().get_name()
    full_rotary = getattr(rotary, "is_neox_style", False) and getattr(rotary, "rotary_dim", 0) == attention.head_dim
    # Sequences have one token each when such a graph is captured, and any number when it is replayed.
    mixed = config.compilation_config.cudagraph_mode.mixed_mode().name == "FULL"
    mixed = mixed or os.environ.get("VLLM_USE_BREAKABLE_CUDAGRAPH") == "1"
    reasons = {
        f"the products of its layers are of {', '.join(sorted(methods))}": not methods <= UNQUANTISED,
        f"its experts have the layout of {', '.join(sorted(layouts))}": not layouts <= {EXPERTS_LAYOUT},
        "experts are shared, or have replicas": any(map(shares_experts, layers)),
        "layers have other norms or scales": any(map(differs_from_llama, layers)),
        f"the KV cache is in {cache}": cache not in ("auto", "bfloat16", "float16"),
        f"the KV cache has the layout of {backend}": backend != "FLASH_ATTN",
        f"dtype is {config.model_config.dtype}": config.model_config.dtype not in (torch.bfloat16, torch.float16),
        "one CUDA graph is for decodes and prompts": mixed,
        "hidden states of several layers are asked for": bool(getattr(model.model, "aux_hidden_state_layers", ())),
        f"{type(rotary).__name__} does not rotate whole heads by halves": not full_rotary,
        "attention has another scale": attention.scaling != attention.head_dim**-0.5,
        "attention has a window": getattr(attention.attn, "sliding_window", None) is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def engine_model(model: Any, positions: int) -> EngineModel:
    """vLLM's weights, without a copy."""
    layers, core = model.model.layers, model.model
    attention = layers[0].self_attn
    table = attention.rotary_emb.cos_sin_cache[:positions].to(core.embed_tokens.weight)
    table = torch.cat([table, table[-1:].expand(max(0, positions - len(table)), -1)])
    cos, sin = (torch.cat([half, half], dim=-1).contiguous() for half in table.chunk(2, dim=-1))
    shape = LayerShape(
        heads=attention.num_heads,
        kv_heads=attention.num_kv_heads,
        head_dim=attention.head_dim,
        eps=layers[0].input_layernorm.variance_epsilon,
        scaling=attention.scaling,
    )
    return EngineModel(
        embedding=core.embed_tokens.weight,
        layers=[weights_of(layer) for layer in layers],
        shapes=[shape] * len(layers),
        norm=core.norm.weight,
        lm_head=model.lm_head.weight,
        rope_table=(cos, sin),
    )


def weights_of(layer: Any) -> Weights:
    """The weights of one of vLLM's layers, whose q, k and v are one matrix, and gate and up another."""
    attention = layer.self_attn
    return Weights(
        input_norm=layer.input_layernorm.weight,
        qkv=(attention.qkv_proj.weight,),
        qkv_bias=(attention.qkv_proj.bias,),
        q_norm=attention.q_norm.weight if hasattr(attention, "q_norm") else None,
        k_norm=attention.k_norm.weight if hasattr(attention, "k_norm") else None,
        o=attention.o_proj.weight,
        o_bias=attention.o_proj.bias,
        post_norm=layer.post_attention_layernorm.weight,
        mlp=experts_of(layer.mlp) if has_experts(layer.mlp) else dense_of(layer.mlp),
    )


def dense_of(mlp: Any) -> Dense:
    """The weights of one of vLLM's MLPs."""
    return Dense(
        gate_up=(mlp.gate_up_proj.weight,),
        gate_up_bias=(mlp.gate_up_proj.bias,),
        down=mlp.down_proj.weight,
        down_bias=mlp.down_proj.bias,
    )


def experts_of(mlp: Any) -> Experts:
    """The weights of one of vLLM's layers of experts, whose weights stay float32."""
    experts = mlp.experts.routed_experts
    return Experts(
        router=mlp.gate.weight,
        gate_up=experts.w13_weight,
        down=experts.w2_weight,
        top_k=experts.top_k,
        normalised=experts.renormalize,
        rounded=False,
    )
