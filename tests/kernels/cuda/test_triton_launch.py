"""Arguments of a Triton kernel that the driver launches without Triton: which are passed, and in how many bytes."""

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kernels.cuda import triton_launch
from kernels.cuda.launch import packed_argument
from kernels.cuda.triton_launch import bound, leaves
from tests.kernels.triton_compiling import assembled

BITS = {"u64": 64, "b64": 64, "u32": 32, "b32": 32, "f32": 32}


def test_constants_and_ones_are_left_out_wherever_they_lie() -> None:
    source = SimpleNamespace(signature={"x": ("*bf16", "constexpr", ("i32", "fp32")), "n": "i32", "C": "constexpr"})
    x = torch.zeros(4, dtype=torch.bfloat16)
    found = list(leaves(((x, 1, (3, 0.5)), 7, 99), source))
    assert found[0][0] is x
    assert [kind for _, kind in found] == ["*bf16", "i32", "fp32", "i32"]
    assert [value for value, _ in found[1:]] == [3, 0.5, 7]


def test_the_packed_arguments_are_those_that_the_compiled_kernel_declares() -> None:
    from kernels.fused.rmsnorm_triton import Config, _rmsnorm

    types: dict[str, Any] = {
        "x": ("*bf16", "i32:16"), "residual": ("*bf16", "i32:16"), "w": "*bf16", "out": ("*bf16", "*bf16", "*fp32"),
        "shape": ("i32", "i32:16"), "eps": "fp32",
    }  # fmt: skip
    ptx = assembled(_rmsnorm, types, {"C": Config(True, True, 1, 256, False)}, 4, 3)["ptx"]
    declared = [BITS[kind] for kind in re.findall(r"\.param \.(\w+)[^,)]*_param_\d+", ptx)]
    tensor = torch.zeros(4)
    arguments = ((tensor, 16), (tensor, 16), tensor, (tensor, tensor, tensor), (3, 256), 1e-6, None)
    plain = {name: _without_divisor(kind) for name, kind in types.items()} | {"C": "constexpr"}
    kinds = [kind for _, kind in leaves(arguments, SimpleNamespace(signature=plain))]
    assert declared == [64 if kind[0] == "*" else 32 for kind in (*kinds, "*", "*")]


def _without_divisor(kind: Any) -> Any:
    return kind.removesuffix(":16") if isinstance(kind, str) else tuple(map(_without_divisor, kind))


class Jit:
    """Stands in for a compiled kernel, which needs a GPU to be loaded."""

    def __init__(self, **metadata: Any) -> None:
        plain = {"global_scratch_size": 0, "profile_scratch_size": 0, "num_ctas": 1, "num_warps": 4, "shared": 1024}
        self.metadata = SimpleNamespace(**plain | {"launch_pdl": False} | metadata)
        self.src = SimpleNamespace(signature={"x": "*fp32", "y": "*fp32", "eps": "fp32", "n": "i32"})
        self.name, self.function, self.asked = "jit", 99, {}

    @property
    def run(self) -> Any:
        def compiled(*arguments: Any, **options: Any) -> "Jit":
            self.asked = options
            return self

        return compiled


def test_a_launch_packs_all_but_the_output_once(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[Any] = []
    monkeypatch.setattr(triton_launch, "Launch", lambda *given: launches.append(given))
    x, y, other = torch.zeros(4), torch.zeros(4), torch.zeros(4)
    kernel, stream = Jit(), 7
    found = bound(kernel, (x, y, 0.5, 3), y, num_warps=4)
    assert kernel.asked == {"grid": (1, 1, 1), "warmup": True, "num_warps": 4}
    found.launch((2, 3), stream, other)
    function, grid, threads, arguments, *rest = launches[0]
    assert (function, grid, threads, rest) == (99, (2, 3), 128, [7, 1024, False])
    assert arguments == [x.data_ptr(), other.data_ptr(), np.float32(0.5), 3, 0, 0]
    assert ctypes.sizeof(packed_argument(arguments[2])) == 4


@pytest.mark.parametrize("metadata", [{"global_scratch_size": 64}, {"profile_scratch_size": 8}, {"num_ctas": 2}])
def test_a_kernel_that_needs_more_than_arguments_is_refused(metadata: dict[str, int]) -> None:
    y = torch.zeros(4)
    with pytest.raises(NotImplementedError, match="jit needs"):
        bound(Jit(**metadata), (y, y, 0.5, 3), y)


def test_an_argument_of_an_unknown_type_is_refused() -> None:
    kernel, y = Jit(), torch.zeros(4)
    kernel.src.signature["eps"] = "bf16"
    with pytest.raises(TypeError, match="type bf16"):
        bound(kernel, (y, y, 0.5, 3), y)


def test_what_is_bound_holds_no_tensor() -> None:
    y = torch.zeros(4)
    assert not any(isinstance(each, torch.Tensor) for each in bound(Jit(), (y, y, 0.5, 3), y).arguments)
