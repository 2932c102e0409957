"""A call of the LM head: blocks find candidates, which the last block, or of samples a second kernel, merges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_out, check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.cuda.arrivals import ArrivalCounters
from kernels.cuda.call import CudaCall, Prepared, Workspace, launch_nothing, pointers
from kernels.cuda.launch import Launch, pack_struct
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.dtypes import DTYPES
from kernels.gemm.skinny_call import SchedulerCounters, check_stream, macros, parameters
from kernels.gemm.skinny_tiles import CANDIDATES_BYTES, TileConfig
from kernels.ops import LmHeadCase
from kernels.ops.lm_head import SETTING_DTYPES, TOP_K, TokenFeedback

SOURCE = Path(__file__).with_name("lm_head.cu")

CANDIDATES = 64
"""Candidates that a block keeps of each row when sampling. Top-k keeps fewer: the last shows whether more are equal."""

JOIN_THREADS = 512

FEEDBACK = np.dtype(
    [(name, np.uint64) for name in ("embedding", "stream", "seen", "position", "moves")]
    + [(name, np.int32) for name in ("words", "rows")],
    align=True,
)
"""`struct Feedback` of lm_head.cu."""

SETTINGS = np.dtype(
    [*((name, np.uint64) for name in (*SETTING_DTYPES, "top_k")), ("common_top_k", np.int32)], align=True
)
"""`struct Settings` of lm_head.cu: the addresses of the rows' settings, and the top_k of all rows."""


def head_macros(config: TileConfig, case: LmHeadCase, max_active: int, dynamic: bool = False) -> dict[str, int]:
    """The macros of lm_head.cu. KEYS is the number of logits of a row that each lane of a warp examines."""
    top = CANDIDATES if case.sampling == "top_k_p" else 0
    keys = -(-config.most_units(max_active) * config.unit_rows // 32) if top else 1
    return macros(config, case.dtype, False, False, dynamic) | {
        "TOP": top, "KEYS": keys, "FEEDBACK_BYTES": FEEDBACK.itemsize, "SETTINGS_BYTES": SETTINGS.itemsize,
    }  # fmt: skip


def schedules_dynamically(config: TileConfig, dynamic: bool) -> bool:
    """Whether a dynamic scheduler is asked for and possible."""
    return dynamic and config.kind != "nvfp4" and config.m == 1 and not config.keep


def build_of(config: TileConfig, case: LmHeadCase, dynamic: bool) -> nvrtc.Build:
    """lm_head.cu for a case on the current GPU, or without a GPU on an H200."""
    return nvrtc.Build.of(
        SOURCE, head_macros(config, case, config.max_active(), schedules_dynamically(config, dynamic))
    )


@dataclass(frozen=True)
class LmHeadArguments:
    """The arguments of a call, in their order: `LmHeadSkinny.build` says what they are."""

    x: Tensor
    w: tuple[Tensor, ...]
    temperature: Tensor | None = None
    top_p: Tensor | None = None
    seed: Tensor | None = None
    stream: Tensor | None = None
    index: Tensor | None = None
    top_k: int | Tensor = TOP_K
    feedback: TokenFeedback | None = None

    @property
    def settings(self) -> dict[str, Tensor | None]:
        """The settings of the rows, by the names of `SETTING_DTYPES`."""
        return {name: getattr(self, name) for name in SETTING_DTYPES}


class LmHead(CudaCall):
    """f(x [m, k], w, ...) -> ids [m] int64, w as `pack_weight` returns it; see `LmHeadSkinny.build`."""

    workspace = True
    open_layout = staticmethod(pointers)

    def __init__(self, case: LmHeadCase, config: TileConfig, pdl: bool, dynamic: bool = False) -> None:
        super().__init__()
        self.case, self.config, self.pdl = case, config, pdl
        self.found: Workspace[Tensor] = Workspace()
        self.counters = SchedulerCounters() if schedules_dynamically(config, dynamic) else None
        self.top = CANDIDATES if case.sampling == "top_k_p" else 0
        self.arrivals = ArrivalCounters(1)

    def __call__(self, *arguments: Any, feedback: TokenFeedback | None = None, out: Any = None, **named: Any) -> Tensor:
        if feedback is None:
            return super().__call__(*arguments, out=out, **named)
        if out is not None:
            raise ValueError("out is given beside feedback, whose token takes the ids")
        return super().__call__(*arguments, feedback=feedback, out=feedback.token, **named)

    def _prepare(self, check: bool, cuda_stream: int, out: Any, /, *arguments: Any, **named: Any) -> Prepared:
        case, config = self.case, self.config
        given = LmHeadArguments(*arguments, **named)
        x, w, feedback = given.x, given.w, given.feedback
        if check:
            self._check(given)
            check_out(out, (case.m,) if feedback is None else (case.m, 1), (torch.int64,))
        allocate = partial(torch.empty, case.m, dtype=torch.int64, device=x.device)
        if case.m == 0:
            return Prepared(allocate, lambda _: launch_nothing)
        max_active = config.max_active()
        compiled = build_of(config, case, self.counters is not None)
        blocks = config.groups(max_active)
        shape = (case.m, blocks, self.top or 1)
        scores = self.found.take(cuda_stream, partial(torch.empty, shape, dtype=torch.int64, device=x.device))
        optional: dict[str, Any] = {"row_scales": w[1]} if len(w) > 1 else {}
        if self.counters is not None:
            optional["counters"] = self.counters.of(w)
        params = parameters(config, max_active, self.pdl, stream=w[0], x=x, y=scores, n=case.vocab, **optional)
        next_step = pack_feedback(feedback)

        def launch(entry: str, *arguments: Any) -> Launch:
            loaded = nvrtc.kernel(compiled, entry, MAX_SHARED_BYTES - CANDIDATES_BYTES)
            size = config.shared_bytes(max_active, self.pdl)
            return Launch(loaded, (blocks,), config.threads, (params, *arguments), cuda_stream, size, self.pdl)

        if not self.top:
            arrivals = self.arrivals.take("x", x.device).data_ptr()

            def bind_one(ids: Tensor) -> Launch:
                return launch("lm_head", ids.data_ptr(), arrivals, next_step)

            return Prepared(allocate, bind_one, workspace=scores)
        settings = pack_settings(given.settings, given.top_k, case.vocab)
        candidates = launch("lm_head_candidates", next_step)
        join = nvrtc.kernel(compiled, "lm_head_join")

        def bind_two(ids: Tensor) -> Callable[[], None]:
            arguments = (scores.data_ptr(), ids.data_ptr(), np.int32(blocks), settings, next_step)
            second = Launch(join, (case.m,), JOIN_THREADS, arguments, cuda_stream, pdl=True)

            def both() -> None:
                candidates()
                second()

            return both

        return Prepared(allocate, bind_two, workspace=scores)

    def _check(self, args: LmHeadArguments) -> None:
        case = self.case
        check_tensor("x", args.x, (case.m, case.k), (DTYPES[case.dtype],), layout="contiguous", aligned=16)
        check_stream(args.w, self.config)
        if isinstance(args.top_k, Tensor):
            check_tensor("top_k", args.top_k, (case.m,), (torch.int64,), layout="contiguous")
        elif not 1 <= args.top_k < CANDIDATES:
            raise ValueError(f"top_k is {args.top_k}: from 1 to {CANDIDATES - 1} are possible")
        for name, value in args.settings.items():
            check_presence(name, value, bool(self.top), f"sampling is {case.sampling}")
            if value is not None:
                check_tensor(name, value, (case.m,), (getattr(torch, SETTING_DTYPES[name]),), layout="contiguous")


def pack_settings(settings: Mapping[str, Tensor | None], top_k: int | Tensor, vocab: int) -> Any:
    """`SETTINGS` as a numpy scalar, zeros for what is None."""
    of_all = {"top_k": top_k} if isinstance(top_k, Tensor) else {"common_top_k": min(top_k, vocab)}
    return pack_struct(SETTINGS, **settings, **of_all)


def pack_feedback(feedback: TokenFeedback | None) -> Any:
    """`FEEDBACK` as a numpy scalar. Raises ValueError unless the embedding's rows are aligned words of 16 bytes."""
    if feedback is None:
        return pack_struct(FEEDBACK)
    rows = 0 if feedback.seen is None else len(feedback.seen)
    packed = pack_struct(FEEDBACK, position=feedback.position, moves=feedback.moves, seen=feedback.seen, rows=rows)
    if feedback.embedding is not None and feedback.stream is not None:
        row_bytes = feedback.embedding.shape[1] * feedback.embedding.itemsize
        if row_bytes % 16 or feedback.embedding.data_ptr() % 16 or feedback.stream.data_ptr() % 16:
            raise ValueError(f"embedding has rows of {row_bytes} bytes or begins in between: 16 are copied at once")
        packed["embedding"], packed["stream"] = feedback.embedding.data_ptr(), feedback.stream.data_ptr()
        packed["words"] = row_bytes // 16
    return packed
