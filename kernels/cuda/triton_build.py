"""Kernels in Triton compiled ahead, on a machine that needs no GPU: within `compiling_for` calls with tensors on
torch's meta device are noted. Written for Triton 3.6, whose cache is then filled.
"""

import base64
import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kernels.cuda.nvrtc import prebuilt_file

FOLDER = "triton"
"""Where a folder that KERNELS_PREBUILT names has these kernels, as Triton's cache has them."""
Place = tuple[int, ...]
"""Of an argument within nested tuples."""


@dataclass(frozen=True)
class TritonBuild:
    """A kernel in Triton as it is compiled: the type of each argument, as Triton writes it, the values of constants,
    what is assumed of an argument, such as `D` for a multiple of 16, and the options that a launch gives.
    """

    module: str
    function: str
    signature: tuple[tuple[str, Any], ...]
    constants: tuple[tuple[Place, Any], ...]
    assumed: tuple[tuple[Place, str], ...]
    options: tuple[tuple[str, Any], ...]
    sm: int

    @property
    def name(self) -> str:
        """The path of the file that Triton writes last, by its version and the functions' source, wherever they lie."""
        return f"{FOLDER}/{base64.b32encode(self._digest()).decode().rstrip('=')}/__grp__{self.function}.json"

    @property
    def is_made(self) -> bool:
        """Whether Triton's cache has it. What was compiled ahead is copied there first."""
        from triton import knobs
        from triton.runtime.cache import get_cache_manager

        if (Path(knobs.cache.dir) / Path(self.name).relative_to(FOLDER)).exists():
            return True
        ahead = prebuilt_file(self.name)
        if ahead is None:
            return False
        cache = get_cache_manager(self._digest().hex())
        files = [path for path in ahead.parent.iterdir() if path != ahead]
        group = {path.name: cache.put(path.read_bytes(), path.name) for path in files}
        cache.put_group(ahead.name.removeprefix("__grp__"), group)
        return True

    def make_into(self, folder: Path) -> Path:
        """The file of that name in the folder, compiled unless it is there."""
        from triton import knobs

        path = folder / self.name
        if not path.exists():
            with knobs.cache.scope():
                knobs.cache.dir = str(folder / FOLDER)
                self.make()
        return path

    def make(self) -> Any:
        """The compiled kernel, which Triton's cache then has. Raises what Triton raises."""
        import triton

        source, target, options = self._given()
        return triton.compile(source, target=target, options=options)

    def _given(self) -> tuple[Any, Any, dict[str, Any]]:
        """What `triton.compile` takes."""
        from triton.backends.compiler import BaseBackend, GPUTarget
        from triton.compiler import ASTSource

        kernel = getattr(importlib.import_module(self.module), self.function)
        assumed = {path: BaseBackend.parse_attr(what) for path, what in self.assumed}
        source = ASTSource(kernel, dict(self.signature), dict(self.constants), assumed)
        return source, GPUTarget("cuda", self.sm, 32), dict(self.options)

    def _digest(self) -> bytes:
        """The key of Triton's cache."""
        from triton.compiler import make_backend
        from triton.compiler.compiler import get_cache_invalidating_env_vars, get_cache_key

        source, target, options = self._given()
        backend = make_backend(target)
        key = get_cache_key(source, backend, backend.parse_options(options), get_cache_invalidating_env_vars())
        return hashlib.sha256(key.encode()).digest()


class Noted(NamedTuple):
    """Compute capability × 10 and SMs of the GPU that is compiled for, and what was noted."""

    sm: int
    sms: int
    builds: list[TritonBuild]


_noted: ContextVar[Noted] = ContextVar("noted")


@contextmanager
def compiling_for(sm: int, sms: int) -> Iterator[list[TritonBuild]]:
    """Calls on torch's meta device are noted in the list that comes, as they would be launched on such a GPU."""
    builds: list[TritonBuild] = []
    token = _noted.set(Noted(sm, sms, builds))
    try:
        yield builds
    finally:
        _noted.reset(token)


def compiled_for() -> Noted | None:
    """What is compiled for within `compiling_for`, or None outside of it."""
    return _noted.get(None)


def note(kernel: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Notes a launch of `kernel`, a `triton.jit` function. Raises LookupError outside of `compiling_for`."""
    noted = _noted.get()
    noted.builds.append(build_of(kernel, arguments, options, noted.sm))


def build_of(kernel: Any, arguments: Sequence[Any], options: Mapping[str, Any], sm: int) -> TritonBuild:
    """What Triton compiles for a launch with these arguments, which may be nested tuples."""
    bind, backend = _binder(kernel, sm)
    bound, specialisation, more = bind(*arguments, **options)
    _, signature, constants, _ = kernel._pack_args(backend, dict(options), bound, specialisation, more)
    assumed = _strings([what for _, what in specialisation])
    return TritonBuild(
        kernel.fn.__module__, kernel.fn.__name__, tuple(signature.items()), tuple(constants.items()), tuple(assumed),
        tuple(sorted(options.items())), sm,
    )  # fmt: skip


@cache
def _binder(kernel: Any, sm: int) -> tuple[Any, Any]:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature

    backend = make_backend(GPUTarget("cuda", sm, 32))
    return create_function_from_signature(kernel.signature, kernel.params, backend), backend


def _strings(values: Sequence[Any], path: Place = ()) -> Iterator[tuple[Place, str]]:
    for number, value in enumerate(values):
        if isinstance(value, str):
            yield (*path, number), value
        elif isinstance(value, list | tuple):
            yield from _strings(value, (*path, number))
