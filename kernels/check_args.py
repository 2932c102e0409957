"""Checks that variants share: the GPU, the params of a build, the arguments of a call. Every error names the cause."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from kernels.hardware import Gpu, generation
from kernels.ops import AttentionCase, LinearCase, StepAttentionCase
from kernels.registry import Refusal, Variant, check_params

if TYPE_CHECKING:
    import torch

MAX_GRID = 65_535
"""The most blocks of a grid along its y and z dimensions."""

C_TYPES = {"bf16": "bf16", "fp16": "f16"}
"""The types of `kernels/tiles/` by the dtypes that the kernels in CUDA C++ take."""

TensorLayout = Literal["any", "rows", "contiguous"]
"""What a kernel needs of strides: `any`, `rows` (1 in the last dimension), or `contiguous`."""


def gpu_refusal(gpu: Gpu, least_sm: int = 80) -> Refusal | None:
    """Refusal of a GPU that Triton's kernels cannot use: not NVIDIA, or compute capability below `least_sm` / 10."""
    if gpu.gpu_class == "cpu":
        return Refusal("device is CPU: this variant runs on NVIDIA GPUs only")
    if gpu.sm < least_sm:
        return Refusal(f"device is {gpu.name}: this variant needs compute capability {least_sm / 10:.1f} or later")
    return None


def batch_refusal(batch: int) -> Refusal | None:
    """The refusal of more sequences than one side of a grid holds."""
    if batch <= MAX_GRID:
        return None
    return Refusal(f"batch is {batch}: this variant takes at most {MAX_GRID} sequences")


def merge_params(name: str, params: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """`default` updated with the params of a build. Raises ValueError for an unknown param."""
    check_params(name, params, tuple(default))
    return default | params


def check_served(variant: Variant, case: Any, sm: int = 90) -> None:
    """Raises ValueError that names the field of a case that the variant serves on no GPU of this generation."""
    refusal = variant.serves(case, generation(sm))
    if refusal is not None:
        raise ValueError(f"case.{refusal.reason}")


def check_tensor(
    name: str,
    tensor: "torch.Tensor",
    shape: Sequence[int | None],
    dtypes: "Sequence[torch.dtype]",
    device: "torch.device | None" = None,
    layout: TensorLayout = "rows",
    aligned: int = 1,
) -> None:
    """Checks a tensor of a call: shape (None: any length), dtypes, `device` (None: the current GPU), strides by
    `layout`, an address that `aligned` divides. Raises ValueError that names it.
    """
    if tensor.shape != shape and (
        tensor.dim() != len(shape)
        or any(length is not None and length != size for length, size in zip(shape, tensor.shape, strict=True))
    ):
        expected = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} has shape {list(tensor.shape)}, not [{expected}]")
    if tensor.dtype not in dtypes:
        raise ValueError(f"{name} is {tensor.dtype}, not {' or '.join(map(str, dtypes))}")
    _check_layout(name, tensor, layout)
    if aligned > 1 and tensor.data_ptr() % aligned:
        raise ValueError(f"{name} begins at {tensor.data_ptr():#x}, which is no multiple of {aligned} bytes")
    if device is None and tensor.device.type != "cuda":
        raise ValueError(f"{name} is on {tensor.device}, not on a GPU")
    if device is not None and tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device} and the first argument on {device}")
    check_current_device(name, tensor)


def _check_layout(name: str, tensor: "torch.Tensor", layout: TensorLayout) -> None:
    if layout == "contiguous" and not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous")
    if layout == "rows" and tensor.numel() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(f"{name} has stride {tensor.stride(-1)} in its last dimension where 1 is needed")


def check_current_device(name: str, tensor: "torch.Tensor") -> None:
    """Raises ValueError for another GPU's tensor: streams of two GPUs are not ordered."""
    import torch

    if tensor.device.type == "cuda" and tensor.device.index != torch.cuda.current_device():
        raise ValueError(f"{name} is on {tensor.device} and the current device is cuda:{torch.cuda.current_device()}")


def check_presence(name: str, value: object, required: bool, because: str) -> None:
    """Raises ValueError when an optional argument is given but not wanted, or wanted but missing."""
    if (value is not None) != required:
        raise ValueError(f"{name} is {'missing' if required else 'given'} and {because}")


def check_additions(
    case: LinearCase,
    m: int,
    bias: "torch.Tensor | None",
    residual: "torch.Tensor | None",
    device: "torch.device | None" = None,
    layout: TensorLayout = "contiguous",
    aligned: tuple[int, int] = (1, 1),
) -> None:
    """Checks bias [n] and residual [m, n] against the epilogue, as `check_tensor`; `aligned` is of both in turn."""
    from kernels.dtypes import DTYPES

    of_residual = case.epilogue == "residual"
    for name, given, required, shape, multiple in (
        ("bias", bias, case.adds_bias, (case.n,), aligned[0]),
        ("residual", residual, of_residual, (m, case.n), aligned[1]),
    ):
        check_presence(name, given, required, f"epilogue is {case.epilogue}")
        if given is not None:
            check_tensor(name, given, shape, (DTYPES[case.dtype],), device, layout, multiple)


def check_out(
    out: "torch.Tensor | None",
    shape: Sequence[int],
    dtypes: "Sequence[torch.dtype]",
    name: str = "out",
    device: "torch.device | None" = None,
) -> None:
    """Checks the `out` of a call, if given: contiguous, on the device (None: a GPU), at a multiple of 16 bytes."""
    if out is not None:
        check_tensor(name, out, shape, dtypes, device, layout="contiguous", aligned=16)


def check_outputs(
    out: Any, outputs: "Sequence[tuple[str, tuple[int, ...], torch.dtype]]", device: "torch.device"
) -> None:
    """Checks the `out` of a call, if given, as `check_out`; of several `outputs` (name, shape, dtype) a tuple."""
    if out is None:
        return
    outputs_given = (out,) if len(outputs) == 1 else out
    if not isinstance(outputs_given, tuple) or len(outputs_given) != len(outputs):
        raise ValueError(f"out is not the {len(outputs)} outputs {', '.join(name for name, _, _ in outputs)}")
    for tensor, (name, shape, dtype) in zip(outputs_given, outputs, strict=True):
        check_out(tensor, shape, (dtype,), name, device)


def check_qkv(
    case: AttentionCase, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", device: "torch.device | None"
) -> None:
    """Checks q [batch, q_len, heads, head_dim], and k and v [batch, kv_len, kv_heads, head_dim], as `check_tensor`."""
    from kernels.dtypes import DTYPES

    keys = (case.batch, case.kv_len, case.kv_heads, case.head_dim)
    queries = (case.batch, case.q_len, case.heads, case.head_dim)
    for name, given, shape in (("q", q, queries), ("k", k, keys), ("v", v, keys)):
        check_tensor(name, given, shape, (DTYPES[case.dtype],), device)


def check_sinks(case: AttentionCase | StepAttentionCase, sinks: "torch.Tensor | None", device: "torch.device") -> None:
    """Checks the sinks [heads] of a call, in the case's dtype, as `check_tensor`."""
    from kernels.dtypes import DTYPES

    check_presence("sinks", sinks, bool(case.sinks), f"the case's sinks {case.sinks}")
    if sinks is not None:
        check_tensor("sinks", sinks, (case.heads,), (DTYPES[case.dtype],), device)
