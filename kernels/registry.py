"""Variants: implementations of an op, and what each refuses. Imports without torch. A variant is a file that calls
`register`, and whose module stands in `MODULES`; it imports torch, Triton and CuPy inside `build`.
"""

import difflib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.cuda.nvrtc import Build
from kernels.hardware import Gpu
from kernels.ops import Case

MODULES: tuple[str, ...] = (
    "kernels.attention.torch_sdpa",
    "kernels.attention.torch_decode",
    "kernels.attention.flash_triton",
    "kernels.attention.flash_hopper",
    "kernels.blackwell.flash",
    "kernels.attention.torch_step",
    "kernels.attention.step_hopper",
    "kernels.attention.decode_split",
    "kernels.attention.decode_hopper",
    "kernels.gemm.torch_linear",
    "kernels.gemm.hopper",
    "kernels.blackwell.gemm",
    "kernels.gemm.skinny",
    "kernels.gemm.lm_head",
    "kernels.gemm.small",
    "kernels.gemm.torch_grouped",
    "kernels.gemm.grouped_hopper",
    "kernels.gemm.grouped_few",
    "kernels.blackwell.grouped",
    "kernels.fused.torch_fused",
    "kernels.fused.triton_fused",
    "kernels.fft.torch_fft",
    "kernels.fft.subquadratic",
    "kernels.fft.monarch",
    "kernels.fft.toeplitz",
    "kernels.runners.whole_model",
    "kernels.megakernel.variant",
)
"""The modules that register variants: one line each."""


@dataclass(frozen=True)
class Refusal:
    """Why a variant cannot serve a case: one sentence that names the field and the value."""

    reason: str


class Variant(ABC):
    """One implementation of one op.

    `peer` marks a variant of torch, a library of NVIDIA or another package, whose time is to be beaten. `lossy` marks a
    variant that lowers the precision of the weights: it needs the workload's permission and the quality gate.
    `build_seconds` is the longest that building and the first call take; a short run leaves slow builds out.

    Calls, in the layouts of each case's docstring:
    - linear: `f(x, w, bias=None, residual=None, eps=1e-6) -> y`; eps is that of a `rmsnorm_scale` epilogue.
    - attention: `f(q, k, v) -> o`; with a cache `f(q, k, v, lengths=None, page_table=None, k_scale=None,
      v_scale=None)`, lengths [batch] int32, page_table [batch, max_pages] int32, scales [kv_heads] float32.
    - rmsnorm: `f(x, w, residual=None, eps=1e-6) -> y`. A case that quantises returns `values, scale` in place of y.
      With a residual, x + residual is the last output.
    - gated: `f(gate_up) -> y`.
    - rope: `f(q, k, cos, sin) -> (q, k)`, cos and sin [batch, q_len, head_dim]. With append `f(q, k, v, cos, sin,
      k_cache, v_cache, position, page_table=None, k_scale=None, v_scale=None) -> q`: it writes the rotated k, and v,
      into the slots of sequence b from position[b] on and changes no other slot; position [batch] is int64 or int32.
      A cache in fp8 takes them divided by the scales [kv_heads], saturated.
    - step_attention: `f(qkv, cos, sin, k_cache, v_cache, position, page_table=None) -> o`: it writes the slots of
      the caches as an append does; row p of cos and sin [positions, head_dim] belongs to position p.
    - lm_head: `f(x, w) -> ids [m] int64`. A case that samples also takes the settings of `SETTING_DTYPES`, by name, and
      `top_k`: a number for all rows, or int64 [m].
    - grouped: `f(x, w, offs) -> y`, with `bias` where the epilogue adds one, and `token` where the case gathers.
    - fft_conv: `f(u, w, w_pre=None, w_post=None, d=None) -> y`.

    Where a variant packs its weight, `w` is what `pack` returned. Variants in CUDA C++ or Triton also take `out=` and
    have `f.unchecked(..., out=y)`: see `kernels.cuda.call.CudaCall`.
    """

    name: ClassVar[str]
    op: ClassVar[str]
    summary: ClassVar[str]
    peer: ClassVar[bool] = False
    lossy: ClassVar[bool] = False
    build_seconds: ClassVar[float] = 0.0
    page: ClassVar[str] = ""
    """The page of docs/kernels that describes it, without `.md`."""
    kernels: ClassVar[tuple[str, ...]] = ()
    """Of a variant that is no peer: the names of its GPU kernels, which are entries of its CUDA sources or functions in
    Triton. Where a call of it runs another kernel, it is refused."""
    helpers: ClassVar[tuple[str, ...]] = ()
    """Patterns of kernels of others that it may run beside its own, such as those that copy."""
    device_lengths: ClassVar[bool] = False
    """Attention: the call takes `position` [batch] or [1], read on the device, and a cache that may be longer than the
    keys that are used. Grouped: the host does not read `offs`."""
    advances_token: ClassVar[bool] = False
    """LM head: the call takes `feedback`, a `TokenFeedback`. Each row of x may be scaled by any positive factor."""
    in_a_model: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Params that a plan adds for calls in a model's captured pass, where the weights stay at one address. The best
    guess comes first; the others are timed in the pass."""

    @abstractmethod
    def serves(self, case: Any, gpu: Gpu) -> Refusal | None:
        """None when the variant can run `case` on `gpu`, else the reason."""

    @abstractmethod
    def build(self, case: Any, params: dict[str, Any]) -> Callable[..., Any]:
        """A callable for the case. Raises ValueError that names the argument it cannot take."""

    def own_kernels(self) -> Collection[str]:
        return self.kernels

    def cuda_builds(self, case: Any, params: dict[str, Any], gpu: Gpu) -> Sequence[Build]:
        """What `build` and the calls of its function compile with NVRTC on this GPU: none unless it is in CUDA C++."""
        return ()

    def pack(self, case: Any, params: dict[str, Any], weight: Any) -> Any:
        """The weight `w` in the form that the callable takes, made once for a model and never timed."""
        return weight

    def packing(self, case: Any, params: dict[str, Any]) -> str:
        """Names the form that `pack` gives a weight: calls, of two variants too, share one where it is equal. The
        default suits a `pack` that depends on neither m nor rows, and on the epilogue only by its gate.
        """
        return f"{self.name} {case.model_dump(exclude={'m', 'rows', 'epilogue'})} {params}"

    def rounded(self, case: Any, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """The call's arguments rounded to the lower precision of a lossy variant: the inputs of its own reference."""
        return arguments

    def space(self, case: Any) -> list[dict[str, Any]]:
        """The sets of params to time for the case, the best guess first."""
        return [{}]

    def for_model(self, case: Any) -> Sequence[Mapping[str, Any]]:
        """`in_a_model` without the sets that change nothing for the case. Overrides may derive params from sizes."""
        return self.in_a_model

    def resized(self, case: Any, params: dict[str, Any]) -> dict[str, Any]:
        """`params` that were chosen for another size, without those that this case cannot take."""
        return params


class Peer(Variant):
    """A variant of torch, a library of NVIDIA or another package, that takes no params."""

    peer = True

    def build(self, case: Any, params: dict[str, Any]) -> Callable[..., Any]:
        check_params(self.name, params)
        return self.function(case)

    @abstractmethod
    def function(self, case: Any) -> Callable[..., Any]:
        """A callable for the case, in the form that `Variant` lists."""


def check_params(name: str, params: Iterable[str], supported: Sequence[str] = ()) -> None:
    """Raises ValueError when one of the params is not among those that the variant takes."""
    if unknown := sorted(set(params) - set(supported)):
        names = " and ".join(filter(None, [", ".join(supported[:-1]), *supported[-1:]])) or "no params"
        raise ValueError(f"{name} takes {names}, not {', '.join(unknown)}")


_variants: dict[str, Variant] = {}


def register_like(base: type[Variant], module: str, **facts: Any) -> None:
    """Offers a variant that differs from `base` in these class attributes; `module` is the file that describes it."""
    register(type(facts["name"], (base,), {"__module__": module, **facts}))


def register(variant_class: type[Variant]) -> type[Variant]:
    """Class decorator: offers the variant. Raises ValueError when the name is taken."""
    if variant_class.name in _variants:
        raise ValueError(f"variant {variant_class.name!r} is registered twice")
    _variants[variant_class.name] = variant_class()
    return variant_class


def variants(op: str | None = None) -> list[Variant]:
    """All variants, or those of one op, in the order of registration."""
    for module in MODULES:
        importlib.import_module(module)
    return [variant for variant in _variants.values() if op is None or variant.op == op]


def variant(name: str) -> Variant:
    """The variant of that name. Raises KeyError with the sentence of `unknown`."""
    by_name = {variant.name: variant for variant in variants()}
    if name not in by_name:
        raise KeyError(unknown(name))
    return by_name[name]


def unknown(name: str) -> str:
    """The sentence about a name that no variant has; it suggests similar names."""
    like = difflib.get_close_matches(name.lower(), [variant.name for variant in variants()], n=3)
    meant = f"; did you mean {' or '.join(like)}?" if like else ";"
    return f"there is no variant {name!r}{meant} `python -m kernels list` shows all of them"


def misnamed(names: Iterable[str], ops: Collection[str]) -> str:
    """The sentence about the first name that no variant of the ops has; "" when all names are known."""
    op_of = {variant.name: variant.op for variant in variants()}
    for name in names:
        if name not in op_of:
            return unknown(name)
        if op_of[name] not in ops:
            return f"{name} is a variant of {op_of[name]}, not of {', '.join(ops)}"
    return ""


def offers(case: Case, gpu: Gpu) -> tuple[list[Variant], dict[str, Refusal]]:
    """The variants that can serve the case on the GPU, and the refusals of the others by name."""
    able: list[Variant] = []
    refused: dict[str, Refusal] = {}
    for candidate in variants(case.op):
        refusal = candidate.serves(case, gpu)
        if refusal is None:
            able.append(candidate)
        else:
            refused[candidate.name] = refusal
    return able, refused
