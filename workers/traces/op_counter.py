"""Counts the operations of a model at their shapes: FLOPs and least bytes, without a profiler.

An eager pass gives them; they hold for the same request under CUDA graphs too.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernels.dtypes import DTYPE_NAMES
from kernels.model.striped_hyena import CONVOLUTIONS
from kernels.ops import AttentionCase, Case, LinearCase, RmsNormCase
from workers.traces.labels import TraceScope, label, plain_op

_ELEMENTWISE = ("add", "sub", "mul", "div", "neg", "cat", "silu", "gelu", "tanh", "softmax", "pow")
_SDPA_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


Count = tuple[float, float, str, Case | None]
"""FLOPs, least bytes, the shape in words, and the case."""


@dataclass(frozen=True)
class CountedOp:
    """One operation that ran: `case` when the workbench has variants of it, `shape` for people."""

    label: str
    phase: str
    flops: float
    least_bytes: float
    shape: str
    dtype: str
    case: Case | None = None


class OpCounter(TorchFunctionMode):
    """Lists in `counted` the operations of a model that runs inside its `with` block. `Scopes` tells it where they are.

    `kv_heads` is the number of key-value heads that the model stores: some attention code repeats them before it calls
    torch. Of a model on several GPUs what runs on `device` is listed alone; None lists all.
    """

    def __init__(self, kv_heads: int | None = None, device: torch.device | None = None) -> None:
        super().__init__()
        self._kv_heads, self._device = kv_heads, device
        self.counted: list[CountedOp] = []
        self._scopes: list[tuple[TraceScope, int]] = []
        self._phase = "forward"

    def opened(self, scope: TraceScope) -> None:
        if scope.kind == "step":
            self._phase = scope.name
        self._scopes.append((scope, len(self.counted)))

    def closed(self, scope: TraceScope, module: Any, inputs: Any, outputs: Any) -> None:
        _, before = self._scopes.pop()
        if isinstance(module, CONVOLUTIONS):
            del self.counted[before:]  # however torch computes it, it is one case
        if scope.kind == "unit" and len(self.counted) == before and self._unit() is None:
            with torch._C.DisableTorchFunction():
                self._count_unit(scope, module, inputs, outputs)

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        outputs = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            self._count(plain_op(getattr(func, "__name__", "")), args, kwargs, outputs)
        return outputs

    def _unit(self) -> TraceScope | None:
        return next((scope for scope, _ in self._scopes if scope.kind == "unit"), None)

    def _count(self, name: str, args: Any, kwargs: Any, outputs: Any) -> None:
        if not isinstance(outputs, torch.Tensor):
            return
        counting = {
            "linear": _linear,
            "addmm": _addmm,
            "matmul": _matmul,
            "bmm": _matmul,
            "grouped_mm": _grouped,
            "_grouped_mm": _grouped,
            "conv1d": _convolution,
            "conv2d": _convolution,
            "conv3d": _convolution,
            "scaled_dot_product_attention": self._attention,
        }.get(name)
        if counting is not None:
            self._add(name, *counting(args, kwargs, outputs), outputs)
        elif name in _ELEMENTWISE and self._unit() is None and self._scopes:
            tensors = [*_tensors(args), *_tensors(kwargs), outputs]
            self._add(name, outputs.numel(), sum(map(_nbytes, tensors)), _text(outputs), None, outputs)

    def _add(
        self, name: str, flops: float, least_bytes: float, shape: str, case: Case | None, outputs: torch.Tensor
    ) -> None:
        scope = self._unit() or next((scope for scope, _ in reversed(self._scopes) if scope.kind == "own"), None)
        self._list(label(scope, name, self._phase), flops, least_bytes, shape, case, outputs)

    def _list(
        self, name: str, flops: float, least_bytes: float, shape: str, case: Case | None, outputs: torch.Tensor
    ) -> None:
        if self._device not in (None, outputs.device):
            return
        dtype = DTYPE_NAMES.get(outputs.dtype, "fp32")
        self.counted.append(CountedOp(name, self._phase, flops, least_bytes, shape, dtype, case))

    def _count_unit(self, scope: TraceScope, module: Any, inputs: Any, outputs: Any) -> None:
        """A unit that multiplied no matrices reads its inputs and parameters once and writes its outputs once."""
        given, results = list(_tensors(inputs)), list(_tensors(outputs))
        if not results:
            return
        parameters = sum(_nbytes(parameter) for parameter in module.parameters()) if module is not None else 0
        case: Case | None = None
        if scope.name.startswith("embedding"):
            least = 2.0 * sum(map(_nbytes, results))
        elif scope.name == "kv cache update":
            least = 2.0 * sum(map(_nbytes, given))
        else:
            least = float(sum(map(_nbytes, [*given, *results])) + parameters)
        flops = float(results[0].numel())
        if isinstance(module, CONVOLUTIONS):
            case = module.case(given[0])
            flops, least = case.flops, case.least_bytes
        if scope.name.startswith("norm") and "RMS" in scope.owner and results[0].dtype in DTYPE_NAMES:
            width = results[0].shape[-1]
            case = RmsNormCase(m=results[0].numel() // width, n=width, dtype=DTYPE_NAMES[results[0].dtype])
            least = case.least_bytes
        self._list(scope.name, flops, least, _text(results[0]), case, results[0])

    def _attention(self, args: Any, kwargs: Any, outputs: torch.Tensor) -> Count:
        named = dict(zip(_SDPA_ARGUMENTS, args, strict=False)) | kwargs
        query, key = named["query"], named["key"]
        if query.dim() != 4:
            flops = 4.0 * math.prod(query.shape) * key.shape[-2]
            return flops, float(sum(map(_nbytes, (query, key, key, outputs)))), _text(query), None
        batch, heads, q_len, head_dim = query.shape
        dtype = DTYPE_NAMES.get(query.dtype, "fp32")
        case = AttentionCase(
            kind="decode" if q_len == 1 else "prefill",
            head_dim=head_dim,
            heads=heads,
            kv_heads=min(self._kv_heads or heads, key.shape[1]),
            batch=batch,
            q_len=q_len,
            kv_len=key.shape[-2],
            causal=q_len == 1 or bool(named.get("is_causal")) or _hides_the_future(named.get("attn_mask")),
            dtype=dtype,
            kv_dtype=dtype,
        )
        return case.flops, case.least_bytes, f"q {_text(query)}, kv {_text(key)}", case


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _text(tensor: torch.Tensor) -> str:
    return "×".join(str(size) for size in tensor.shape)


def _linear(args: Any, kwargs: Any, outputs: torch.Tensor) -> Count:
    x, weight = args[0], args[1] if len(args) > 1 else kwargs["weight"]
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    return _product(x, weight.shape[0], weight.shape[1], bias is not None)


def _addmm(args: Any, kwargs: Any, outputs: torch.Tensor) -> Count:
    _, x, weight = args[:3]
    return _product(x, weight.shape[1], weight.shape[0], True)


def _product(x: torch.Tensor, n: int, k: int, bias: bool) -> Count:
    dtype = DTYPE_NAMES.get(x.dtype, "fp32")
    m = x.numel() // k
    case = LinearCase(m=m, n=n, k=k, dtype=dtype, weights=dtype, epilogue="bias" if bias else "none")
    return case.flops, case.least_bytes, f"{m}×{n}×{k}", case


def _matmul(args: Any, kwargs: Any, outputs: torch.Tensor) -> Count:
    tensors = [*_tensors(args), *_tensors(kwargs)][:2]
    inner = tensors[0].shape[-1]
    least = sum(map(_nbytes, tensors)) + _nbytes(outputs)
    return 2.0 * outputs.numel() * inner, float(least), f"{_text(tensors[0])} · {_text(tensors[1])}", None


def _convolution(args: Any, kwargs: Any, outputs: torch.Tensor) -> Count:
    """A convolution reads x, its kernel and its bias once; each output is a product over one patch of x."""
    tensors = [*_tensors(args), *_tensors(kwargs)]
    x, kernel = tensors[:2]
    least = sum(map(_nbytes, tensors)) + _nbytes(outputs)
    return 2.0 * outputs.numel() * kernel[0].numel(), float(least), f"{_text(x)} by {_text(kernel)}", None


def _grouped(args: Any, kwargs: Any, outputs: torch.Tensor) -> Count:
    """A product of experts' rows, sorted by expert; it reads the weights of those experts alone that have rows."""
    x, weight = args[:2]
    ends = kwargs["offs"] if "offs" in kwargs else args[2]
    k, n = weight.shape[-2:]
    used = len(set(ends.tolist()) - {0})
    least = _nbytes(x) + used * k * n * weight.element_size() + _nbytes(outputs)
    return 2.0 * len(x) * k * n, float(least), f"{len(x)}×{n}×{k}, {len(weight)} experts", None


def _hides_the_future(mask: torch.Tensor | None) -> bool:
    """Whether a boolean or additive mask's first row sees its first key and not its last."""
    if mask is None:
        return False
    row = mask[..., 0, :].reshape(-1, mask.shape[-1])[0]
    hidden = ~row if row.dtype == torch.bool else row < 0
    return bool(hidden[-1].item()) and not bool(hidden[0].item())
