"""The LM head to be called: streamed product, candidates of each block, joined by a small kernel. Needs CUDA to run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.dtypes import DTYPES
from kernels.gemm.skinny_call import SchedulerCounters, check_stream, kernel, macros, parameters, sm_count
from kernels.gemm.skinny_config import CANDIDATES_BYTES, SHARED_MOST, TileConfig
from kernels.ops import LmHeadCase
from kernels.ops.lm_head import TOP_K
from kernels.ops.token_feedback import TokenFeedback

SOURCE = Path(__file__).with_name("lm_head.cu")

CANDIDATES = 64
"""What a block keeps of a row when sampling: the largest top_k there is."""

JOIN_THREADS = 512

FEEDBACK = np.dtype(
    [(name, np.uint64) for name in ("embedding", "stream", "seen", "position")]
    + [(name, np.int32) for name in ("words", "rows")],
    align=True,
)
"""`Feedback` of lm_head.cu."""


def head_macros(config: TileConfig, case: LmHeadCase, sms: int, dynamic: bool = False) -> dict[str, int]:
    """What lm_head.cu is compiled with; KEYS is how many logits of a row each lane of a warp looks at."""
    top = CANDIDATES if case.sampling == "top_k_p" else 0
    keys = -(-config.most_units(sms) * config.unit_rows // 32) if top else 1
    return macros(config, case.dtype, False, False, dynamic) | {
        "TOP": top, "KEYS": keys, "FEEDBACK_BYTES": FEEDBACK.itemsize,
    }  # fmt: skip


class LmHead:
    """f(x [m, k], w, ...) -> ids [m] int64, w as `packed` returns it; see `LmHeadSkinny.build`."""

    def __init__(self, case: LmHeadCase, config: TileConfig, pdl: bool, dynamic: bool = False) -> None:
        self.case, self.config, self.pdl = case, config, pdl
        possible = config.kind != "nvfp4" and config.m == 1 and not config.keep
        self.counters = SchedulerCounters() if dynamic and possible else None
        self.top = CANDIDATES if case.sampling == "top_k_p" else 0

    def __call__(
        self,
        x: Tensor,
        w: tuple[Tensor, ...],
        temperature: Tensor | None = None,
        top_p: Tensor | None = None,
        seed: Tensor | None = None,
        top_k: int = TOP_K,
        feedback: TokenFeedback | None = None,
    ) -> Tensor:
        case, config = self.case, self.config
        check_tensor("x", x, (case.m, case.k), (DTYPES[case.dtype],), layout="contiguous", aligned=16)
        check_stream(w, config)
        settings = self._settings(temperature, top_p, seed, top_k)
        ids = torch.empty(case.m, dtype=torch.int64, device=x.device) if feedback is None else feedback.token
        if case.m == 0:
            return ids
        sms = sm_count(x.device.index)
        compiled = tuple(head_macros(config, case, sms, self.counters is not None).items())
        blocks, shared = config.groups(sms), config.shared_bytes(sms, self.pdl)
        found = torch.empty(case.m, blocks, self.top or 1, dtype=torch.int64, device=x.device)
        given: dict[str, Any] = {"row_scales": w[1]} if len(w) > 1 else {}
        if self.counters is not None:
            given["counters"] = self.counters.of(w)
        params = parameters(config, sms, self.pdl, stream=w[0], x=x, y=found, n=case.vocab, **given)
        nvrtc.launch(
            kernel(SOURCE, "lm_head_candidates", compiled, SHARED_MOST - CANDIDATES_BYTES),
            (blocks,),
            config.warps * 32 + 64,
            (params, *((feedback.position.data_ptr(), feedback.moves.data_ptr()) if feedback else (0, 0))),
            shared,
            self.pdl,
        )
        arguments = (found.data_ptr(), ids.data_ptr(), np.int32(blocks), np.int32(min(top_k, case.vocab)), *settings)
        arguments += (packed_feedback(feedback),)
        nvrtc.launch(kernel(SOURCE, "lm_head_join", compiled, 0), (case.m,), JOIN_THREADS, arguments, 0, True)
        return ids

    def _settings(self, *given: Any) -> tuple[int, ...]:
        """The addresses of temperature, top_p and seed. Raises ValueError that names the one that is wrong."""
        *tensors, top_k = given
        if not 1 <= top_k <= CANDIDATES:
            raise ValueError(f"top_k is {top_k}: from 1 to {CANDIDATES} are possible")
        addresses = []
        for name, value, dtype in zip(
            ("temperature", "top_p", "seed"), tensors, (torch.float32, torch.float32, torch.int64), strict=True
        ):
            check_presence(name, value, bool(self.top), f"sampling is {self.case.sampling}")
            if value is not None:
                check_tensor(name, value, (self.case.m,), (dtype,), layout="contiguous")
            addresses.append(0 if value is None else value.data_ptr())
        return tuple(addresses)


def packed_feedback(feedback: TokenFeedback | None) -> Any:
    """`FEEDBACK` as a numpy scalar, zeros without feedback.

    Raises ValueError unless the embedding's rows are whole, aligned words of 16 bytes.
    """
    found = np.zeros((), FEEDBACK)
    if feedback is None:
        return found
    found["position"] = feedback.position.data_ptr()
    if feedback.seen is not None:
        found["seen"], found["rows"] = feedback.seen.data_ptr(), len(feedback.seen)
    if feedback.embedding is not None and feedback.stream is not None:
        row_bytes = feedback.embedding.shape[1] * feedback.embedding.itemsize
        if row_bytes % 16 or feedback.embedding.data_ptr() % 16 or feedback.stream.data_ptr() % 16:
            raise ValueError(f"embedding has rows of {row_bytes} bytes or begins in between: 16 are copied at once")
        found["embedding"], found["stream"] = feedback.embedding.data_ptr(), feedback.stream.data_ptr()
        found["words"] = row_bytes // 16
    return found
