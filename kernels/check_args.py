"""What variants have in common: where Triton's run, and what all say of wrong arguments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernels.hardware import GPUS, Gpu
from kernels.registry import Refusal, Variant

if TYPE_CHECKING:
    import torch


def not_here(gpu: Gpu, least_sm: int = 80) -> Refusal | None:
    """Triton's kernels need an NVIDIA GPU of compute capability 8.0, or what `least_sm` / 10 says, or later."""
    if gpu.gpu_class == "cpu":
        return Refusal("device is CPU: this variant runs on NVIDIA GPUs only")
    if gpu.sm < least_sm:
        return Refusal(f"sm is {gpu.sm}: this variant needs compute capability {least_sm / 10:.1f} or later")
    return None


def chosen(name: str, params: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """`default` with the params of a build put in. Raises ValueError for a param that there is not."""
    unknown = set(params) - set(default)
    if unknown:
        raise ValueError(f"{name} takes {', '.join(default)}, not {', '.join(sorted(unknown))}")
    return default | params


def expect(
    name: str,
    given: "torch.Tensor",
    shape: Sequence[int | None],
    dtypes: "Sequence[torch.dtype]",
    device: "torch.device",
) -> None:
    """Raises ValueError that names the argument unless it has this shape (None: any length), one of the dtypes, the
    device, and its last dimension contiguous.
    """
    wanted = [str(length) if length is not None else "any" for length in shape]
    if given.dim() != len(shape) or any(
        length is not None and length != found for length, found in zip(shape, given.shape, strict=True)
    ):
        raise ValueError(f"{name} has shape {list(given.shape)} where [{', '.join(wanted)}] is needed")
    if given.dtype not in dtypes:
        raise ValueError(f"{name} is {given.dtype} where {' or '.join(map(str, dtypes))} is needed")
    if given.device != device:
        raise ValueError(f"{name} is on {given.device} and the first argument on {device}")
    expect_current(name, given)
    if given.numel() and given.shape[-1] > 1 and given.stride(-1) != 1:
        raise ValueError(f"{name} has stride {given.stride(-1)} in its last dimension where 1 is needed")


def expect_served(variant: Variant, case: Any) -> None:
    """Raises ValueError that names the field of a case that the variant serves on no Hopper GPU: its build's guard."""
    refusal = variant.serves(case, GPUS["h200"])
    if refusal is not None:
        raise ValueError(f"case.{refusal.reason}")


def expect_current(name: str, given: "torch.Tensor") -> None:
    """Raises ValueError that names the argument when it lies on another GPU than the current one: kernels go to the
    current GPU's stream, where nothing orders them after the work of another.
    """
    import torch

    if given.device.type == "cuda" and given.device.index != torch.cuda.current_device():
        raise ValueError(f"{name} is on {given.device} and the current device is cuda:{torch.cuda.current_device()}")
