"""The cases that the passes of a compact decoder run, in every fused and unfused form."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from torch import Tensor

from kernels.dtypes import DTYPE_NAMES
from kernels.model import decoder
from kernels.model.experts import Experts
from kernels.model.layer_cases import attention_case, expert_cases, few_expert_cases, fits_step, rope_case, step_case
from kernels.model.layer_weights import Dense, Weights
from kernels.model.prompts import bucket
from kernels.ops import Case, Epilogue, GatedCase, LinearCase, LmHeadCase, RmsNormCase


@dataclass(frozen=True)
class BatchShape:
    """The traffic: `batch` sequences at once, `tokens` new tokens after prompts of `prompt` tokens."""

    batch: int
    prompt: int
    tokens: int

    @property
    def longest(self) -> int:
        """The final length of a sequence in tokens."""
        return self.prompt + self.tokens

    @property
    def phases(self) -> tuple[tuple[int, int], ...]:
        """(queries of a pass, passes in one request): the decode step, then the prompt."""
        return (1, max(1, self.tokens - 1)), (bucket(self.prompt), 1)


def keeps_codes(case: Case, vocabulary: int) -> bool:
    """Whether a model in fp8 has the codes that it was stored in where products of such a case hold fp8: without a
    norm's weights in them, and not in the LM head, which stays in 16 bits.
    """
    return isinstance(case, LinearCase) and not case.normalises and case.n != vocabulary


class LayerOps:
    """The cases of one decoder's passes."""

    def __init__(self, model: decoder.Decoder, traffic: BatchShape) -> None:
        self.traffic, self.layers = traffic, len(model.layers)
        self._model, self._weights, self._shape = model, model.layers[0], model.shapes[0]
        self._dtype = DTYPE_NAMES[model.embedding.dtype]

    def arrangements(self, queries: int) -> list[tuple[Case, ...]]:
        """Every arrangement of one layer's norms, products and attention: the cases that run, in order.

        If layers differ in their attention, all of its cases are listed. Where a product does not add its output to the
        residual stream, the case of the next norm does; that case stands for the addition alone if the next product
        normalises its rows itself.
        """
        w, m = self._weights, self.traffic.batch * queries
        chains = []
        for qkv, attention, out, (gate_up, down) in product(
            self._normed(m, w.qkv[0].shape, w.qkv_bias[0] is not None, w.input_norm is not None),
            self._attention(queries),
            self._added(m, w.o.shape, w.o_bias is not None, w.attention_norm is not None),
            self._mlp(m, w),
        ):
            cases = [*self._norm(m, qkv, down, w.input_norm), *qkv, *attention, *out]
            cases += [*self._norm(m, gate_up, out, w.post_norm), *gate_up, *down]
            chains.append(tuple(cases))
        return chains

    def final_ops(self) -> list[Case]:
        """The ops after the last layer, in their one form, for the last token of each row."""
        vocab, hidden = self._model.lm_head.shape
        batch = self.traffic.batch
        head = LmHeadCase(m=batch, vocab=vocab, k=hidden, dtype=self._dtype, weights=self._dtype)
        return [RmsNormCase(m=batch, n=hidden, dtype=self._dtype), head]

    def head_norms(self, queries: int) -> list[Case]:
        """The norms of q and of k, which some families have for each head or for all heads together."""
        w = self._weights
        if w.q_norm is None or w.k_norm is None:
            return []
        rows, shape = self.traffic.batch * queries, self._shape
        sizes = ((shape.heads, len(w.q_norm)), (shape.kv_heads, len(w.k_norm)))
        return [RmsNormCase(m=rows * count * shape.head_dim // n, n=n, dtype=self._dtype) for count, n in sizes]

    def cases(self) -> dict[Case, float]:
        """Every case of every form, with the number of times that one request would run it."""
        counts: dict[Case, float] = {}
        for queries, passes in self.traffic.phases:
            once = {case for cases in self.arrangements(queries) for case in cases}
            for case, count in {**dict.fromkeys(once, self.layers), **dict.fromkeys(self.final_ops(), 1)}.items():
                counts[case] = counts.get(case, 0) + count * passes
        return counts

    def _attention(self, queries: int) -> list[tuple[Case, ...]]:
        """A step in one kernel where `fits_step`, or rotation with append and then attention."""
        shapes = dict.fromkeys(self._model.shapes)
        separate = [case for shape in shapes for case in self._separate(shape, queries)]
        forms = [tuple(dict.fromkeys(separate))]
        if queries == 1 and fits_step(self._weights, self._shape):
            batch, length = self.traffic.batch, self.traffic.longest
            steps = (step_case(self._weights, shape, batch, length, self._dtype) for shape in shapes)
            forms.insert(0, tuple(dict.fromkeys(steps)))
        return forms

    def _separate(self, shape: decoder.LayerShape, queries: int) -> Iterator[Case]:
        batch, length = self.traffic.batch, self.traffic.longest if queries == 1 else queries
        yield rope_case(shape, batch, queries, self._dtype)
        kind: Literal["decode", "prefill"] = "decode" if queries == 1 else "prefill"
        yield attention_case(shape, kind, batch, queries, length, self._dtype)

    def _linear(self, m: int, shape: tuple[int, ...], epilogue: Epilogue) -> LinearCase:
        n, k = shape
        return LinearCase(m=m, n=n, k=k, dtype=self._dtype, weights=self._dtype, epilogue=epilogue)

    def _normed(self, m: int, shape: tuple[int, ...], bias: bool, norm: bool) -> list[tuple[Case, ...]]:
        scaled: Epilogue = "rmsnorm_scale_bias" if bias else "rmsnorm_scale"
        plain = (self._linear(m, shape, "bias" if bias else "none"),)
        return [(self._linear(m, shape, scaled),), plain] if norm else [plain]

    def _mlp(self, m: int, layer: Weights) -> list[tuple[tuple[Case, ...], tuple[Case, ...]]]:
        """(gate and up with activation, down), in every form; of experts the router comes before."""
        w = layer.mlp
        if isinstance(w, Experts):
            gate_up, activation, down = expert_cases(w, m, self._dtype)
            separate = (activation,) if activation else ()
            router = self._linear(m, w.router.shape, "none" if w.router_bias is None else "bias")
            forms: list[tuple[tuple[Case, ...], tuple[Case, ...]]] = [((router, gate_up, *separate), (down,))]
            if not w.tiled:
                few_gate_up, few_down = few_expert_cases(w, m, self._dtype)
                forms.append(((router, few_gate_up), (few_down,)))
            return forms
        gated = self._gated(m, w, layer.post_norm is not None)
        return list(product(gated, self._added(m, w.down.shape, w.down_bias is not None, layer.mlp_norm is not None)))

    def _gated(self, m: int, w: Dense, norm: bool) -> list[tuple[Case, ...]]:
        shape, bias = w.gate_up[0].shape, w.gate_up_bias[0] is not None
        n, k = shape[0] // 2, shape[1]
        gate = GatedCase(m=m, n=n, activation=w.activation, dtype=self._dtype)
        separate: list[tuple[Case, ...]] = [(*cases, gate) for cases in self._normed(m, shape, bias, norm)]
        if bias or w.activation != "silu":
            return separate
        together: list[Epilogue] = ["rmsnorm_scale_swiglu", "swiglu"] if norm else ["swiglu"]
        return [*((self._linear(m, (n, k), epilogue),) for epilogue in together), *separate]

    def _added(self, m: int, shape: tuple[int, ...], bias: bool, norm: bool) -> list[tuple[Case, ...]]:
        """A product whose output joins the residual stream, behind a norm of its own where the family has one."""
        plain = (self._linear(m, shape, "bias" if bias else "none"),)
        if norm:
            return [(*plain, RmsNormCase(m=m, n=self._model.norm.shape[0], dtype=self._dtype))]
        return [plain] if bias else [(self._linear(m, shape, "residual"),), plain]

    def _norm(self, m: int, follows: tuple[Case, ...], before: tuple[Case, ...], weight: Tensor | None) -> list[Case]:
        """The case between two products: a norm, an addition or both; [] where products or torch do both."""
        if weight is None:
            return []
        first, last = follows[0], before[-1]
        added = isinstance(last, LinearCase) and last.epilogue == "residual"
        if isinstance(first, LinearCase) and first.normalises and added:
            return []
        return [RmsNormCase(m=m, n=self._model.norm.shape[0], residual=not added, dtype=self._dtype)]
