"""What the variants in Triton hand to `triton_launch.prepared`: to look at it, or to launch it by Triton itself."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kernels.attention import decode_call, flash_triton_call
from kernels.cuda.call import Prepared
from kernels.fused import gated_triton, rmsnorm_triton, rope_triton

MODULES = (decode_call, flash_triton_call, gated_triton, rmsnorm_triton, rope_triton)
"""The modules whose calls `prepared` launches."""


@dataclass
class Given:
    """One call as a variant prepares it: what `prepared` takes, and outputs."""

    kernel: Any
    grid: Sequence[int]
    outputs: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def prepared_calls(monkeypatch: pytest.MonkeyPatch) -> list[Given]:
    """The calls that are prepared from now on. Triton launches them."""
    result: list[Given] = []

    def by_triton(
        kernel: Any,
        grid: Sequence[int],
        stream: int,
        allocate: Callable[[], Any],
        arguments: Callable[[Any], tuple[Any, ...]],
        workspace: object = None,
        **options: Any,
    ) -> Prepared:
        outputs = allocate()
        result.append(Given(kernel, grid, outputs, arguments(outputs), options))
        bind = lambda made: lambda: kernel[grid](*arguments(made), **options)  # noqa: E731
        return Prepared(allocate, bind, workspace=workspace, holds=arguments)

    for module in MODULES:
        monkeypatch.setattr(module, "prepared", by_triton)
    return result


class Specialised:
    """What Triton makes of a kernel's arguments before it compiles, without a GPU."""

    def __init__(self, given: Given, sm: int = 90) -> None:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, make_backend
        from triton.runtime.jit import create_function_from_signature

        kernel, self.target = given.kernel, GPUTarget("cuda", sm, 32)
        backend = make_backend(self.target)
        binder = create_function_from_signature(kernel.signature, kernel.params, backend)
        bound, self.specialisation, options = binder(*given.arguments, **given.options)
        """Of each argument its type and what the kernel assumes of it, as in Triton's own key."""
        self.options, *source = kernel._pack_args(backend, given.options, bound, self.specialisation, options)
        self.source = ASTSource(kernel, *source)

    def compiled(self) -> Any:
        """The kernel, compiled but not loaded."""
        import triton

        return triton.compile(self.source, target=self.target, options=self.options.__dict__)

    def passed(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments that Triton's own launcher passes, in its order: read from the C source that it generates."""
        from triton.backends.nvidia.driver import make_launcher

        code = make_launcher({}, self.source.signature, None)
        names = re.search(r"void \*params\[\] = \{ (.*?) \}", code).group(1).split(", ")  # type: ignore[union-attr]
        assert names[-2:] == ["&global_scratch", "&profile_scratch"]
        flat = list(_flat(tuple(arguments), tuple(self.source.signature.values())))
        return [flat[int(name.removeprefix("&arg"))] for name in names[:-2]]


def _flat(value: Any, kind: Any) -> Iterator[Any]:
    if isinstance(kind, tuple):
        for each, its_kind in zip(value, kind, strict=True):
            yield from _flat(each, its_kind)
    else:
        yield value
