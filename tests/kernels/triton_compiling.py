"""Compiles Triton kernels on a machine that needs no GPU, for sm_90 by default; reads what a binary takes."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kernels.machine_code import KEPT, dumped, recorded

Types = str | tuple["Types", ...]


def stack_bytes(kernel: Any, types: dict[str, Types], constants: dict[str, Any], warps: int, stages: int) -> int:
    """Bytes of stack a thread of the kernel takes: above 0 it spills registers. Arguments as those of `assembled`."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(assembled(kernel, types, constants, warps, stages)["cubin"])
        file.flush()
        usage = dumped("--dump-resource-usage", Path(file.name))
    result = re.search(r"STACK:(\d+)", usage)
    if result is None:
        raise RuntimeError(f"cuobjdump reports no resources: {usage}")
    return int(result.group(1))


def assembled(kernel: Any, types: dict[str, Types], constants: dict[str, Any], warps: int, stages: int) -> Any:
    """The `ptx` and `cubin` of the kernel compiled for Hopper. Arguments as those of `compiled`."""
    result = compiled(kernel, types, constants, warps, stages)
    if KEPT in os.environ:  # else Triton keeps its builds itself
        code = result.asm["ptx"].encode()
        recorded(kernel.__name__, code, lambda: ("", code), "ptx")
    return result.asm


def compiled(
    kernel: Any, types: dict[str, Types], constants: dict[str, Any], warps: int, stages: int, sm: int = 90
) -> Any:
    """The kernel compiled for GPUs of compute capability `sm` / 10."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: "constexpr" if name in constants else _plain(types[name]) for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (names.index(name), *path): [["tt.divisibility", 16]]
            for name, given in types.items()
            for path, kind in _leaves(given)
            if kind.startswith("*") or kind.endswith(":16")
        },
    )
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options={"num_warps": warps, "num_stages": stages})


def _plain(types: Types) -> Types:
    return types.removesuffix(":16") if isinstance(types, str) else tuple(map(_plain, types))


def _leaves(types: Types, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], str]]:
    """Every type with its place in the nested tuples."""
    if isinstance(types, str):
        yield path, types
    else:
        for place, each in enumerate(types):
            yield from _leaves(each, (*path, place))
