"""A call of fft_conv.cu, for long sequences between those of fft_outer.cu. Needs CUDA."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.check_args import check_out, check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, Workspace
from kernels.cuda.launch import Launch, pack_struct
from kernels.dtypes import DTYPES
from kernels.fft.fft_tiles import CHUNK, OUTER, PARAMS, FftConfig
from kernels.ops import FftConvCase


class Arguments(NamedTuple):
    """The arguments of a call. w is what `fft_tiles.spectrum` made."""

    u: Tensor
    w: tuple[Tensor, Tensor]
    w_pre: Tensor | None = None
    w_post: Tensor | None = None
    d: Tensor | None = None


def builds_of(case: FftConvCase, config: FftConfig) -> list[nvrtc.Build]:
    inner = nvrtc.Build.of(config.source, config.macros(case))
    return [inner] if config.outer == 1 else [inner, nvrtc.Build.of(OUTER, config.outer_macros(case))]


class FftConv(CudaCall):
    """f(u [batch, width, length], w, w_pre=None, w_post=None, d=None) -> y like u; w from `fft_tiles.spectrum`."""

    in_order = Arguments

    def __init__(self, case: FftConvCase, config: FftConfig) -> None:
        super().__init__()
        self.case, self.config, self.builds = case, config, builds_of(case, config)
        self.workspace = config.outer > 1  # type: ignore[misc]
        self._workspaces: Workspace[tuple[Tensor, Tensor]] = Workspace()

    def _prepare(self, check: bool, stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        given, case, config = Arguments(*arguments, **named), self.case, self.config
        if check:
            check_call(case, given, out, config.outer * config.points, torch.int32)
        params = pack_params(case, given)
        workspace = self._workspaces.take(stream, partial(self._make, given.u.device)) if self.workspace else None
        if workspace is not None:
            params["workspace"], params["exponents"] = (tensor.data_ptr() for tensor in workspace)

        def bind(y: Tensor) -> Callable[[], object]:
            mine = params.copy()
            mine["y"] = y.data_ptr()
            launches = self._launches_of(mine, stream, given.u.device)
            return launches[0] if len(launches) == 1 else partial(_launch_all, launches)

        allocate = partial(torch.empty, *given.u.shape, dtype=given.u.dtype, device=given.u.device)
        return Prepared(allocate, bind, workspace=workspace)

    @property
    def _chunk(self) -> int:
        """Sequences whose rows the workspace holds at once."""
        config, total = self.config, self.case.batch * self.case.width
        return min(total, max(1, CHUNK // (4 * config.outer * config.points))) if self.workspace else total

    def _make(self, device: torch.device) -> tuple[Tensor, Tensor]:
        config = self.config
        words = torch.empty(self._chunk, config.outer, config.points, dtype=torch.int32, device=device)
        exponents = torch.empty(self._chunk, config.points // config.strip, dtype=torch.int32, device=device)
        return words, exponents

    def _launches_of(self, params: Any, stream: int, device: torch.device) -> list[Launch]:
        """The launches of a call, chunk by chunk."""
        config, total, launches = self.config, self.case.batch * self.case.width, []
        inner = nvrtc.kernel(self.builds[0], config.entry, config.shared_bytes)
        for begin in range(0, total, self._chunk):
            mine = params.copy()
            mine["begin"], mine["end"] = begin, min(total, begin + self._chunk)
            sequences = int(mine["end"]) - begin
            blocks = -(-sequences * config.outer // config.sequences)
            grid = (min(blocks, self._sms(device) * config.blocks),)
            middle = Launch(inner, grid, config.threads, (mine,), stream, config.shared_bytes)
            if config.outer == 1:
                return [middle]
            size, strips = config.outer_shared_bytes, (sequences * config.points // config.strip,)
            first, last = (
                Launch(nvrtc.kernel(self.builds[1], name, size), strips, config.outer_threads, (mine,), stream, size)
                for name in ("fft_outer_forward", "fft_outer_backward")
            )
            launches += [first, middle, last]
        return launches


def _launch_all(launches: list[Launch]) -> None:
    for launch in launches:
        launch()


def pack_params(case: FftConvCase, args: Arguments) -> Any:
    """`struct Params` of a call without y, a workspace and the sequences."""
    tensors = {"u": args.u, "before": args.w_pre, "after": args.w_post, "skip": args.d}
    sizes = {"width": case.width, "length": case.length, "end": case.batch * case.width}
    params = pack_struct(PARAMS, **tensors, spectrum=args.w[0], scales=args.w[1], **sizes)
    flags = case.length * 2 | int(params["u"]) | int(params["before"]) | int(params["after"])
    params["prefetched"] = 0 if flags % 16 else case.length * 2
    return params


def check_call(case: FftConvCase, args: Arguments, out: Tensor | None, columns: int, packed: torch.dtype) -> None:
    """Raises ValueError that names a wrong argument. w is [filters, columns] of the `packed` dtype, and its scales."""
    dtype, shape, filters = (DTYPES[case.dtype],), (case.batch, case.width, case.length), case.filters or case.width
    for name in ("u", "w_pre", "w_post"):
        tensor = getattr(args, name)
        if name != "u":
            check_presence(name, tensor, case.gated, f"gated is {case.gated}")
        if tensor is not None:
            check_tensor(name, tensor, shape, dtype, layout="contiguous", aligned=8 if case.length % 4 == 0 else 2)
    if not isinstance(args.w, tuple) or len(args.w) != 2:
        raise ValueError("w is not what `pack` returned")
    words, scales = args.w
    check_tensor("w", words, (filters, columns), (packed,), layout="contiguous", aligned=16)
    check_tensor("w's scales", scales, (filters,), (torch.float32,), layout="contiguous")
    check_presence("d", args.d, case.skip, f"skip is {case.skip}")
    if args.d is not None:
        check_tensor("d", args.d, (case.width,), (torch.float32,), layout="contiguous")
    check_out(out, shape, dtype)
