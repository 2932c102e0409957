"""The LM head to be called: streamed product, candidates of each block, joined by a small kernel. Needs CUDA to run."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.check_args import check_presence, check_tensor
from kernels.cuda import nvrtc
from kernels.dtypes import DTYPES
from kernels.gemm.skinny_call import Claims, check_stream, kernel, macros, parameters, sm_count
from kernels.gemm.skinny_cut import CANDIDATES_BYTES, SHARED_MOST, Cut
from kernels.ops import LmHeadCase
from kernels.ops.token_feedback import Turn
from kernels.proof.reference import TOP_K

SOURCE = Path(__file__).with_name("lm_head.cu")

CANDIDATES = 64
"""What a block keeps of a row when sampling: the largest top_k there is."""

JOIN_THREADS = 512

TURN = np.dtype(
    [(name, np.uint64) for name in ("embedding", "stream", "seen", "position")]
    + [(name, np.int32) for name in ("words", "rows")],
    align=True,
)
"""`Turn` of lm_head.cu."""


def head_macros(cut: Cut, case: LmHeadCase, sms: int, claims: bool = False) -> dict[str, int]:
    """What lm_head.cu is compiled with; KEYS is how many logits of a row each lane of a warp looks at."""
    top = CANDIDATES if case.sampling == "top_k_p" else 0
    keys = -(-cut.most_units(sms) * cut.unit_rows // 32) if top else 1
    return macros(cut, case.dtype, False, False, claims) | {"TOP": top, "KEYS": keys}


class LmHead:
    """f(x [m, k], w, ...) -> ids [m] int64, w as `packed` returns it; see `LmHeadSkinny.build`."""

    def __init__(self, case: LmHeadCase, cut: Cut, overlap: bool, claims: bool = False) -> None:
        self.case, self.cut, self.overlap = case, cut, overlap
        self.claims = Claims() if claims and cut.kind != "nvfp4" and cut.m == 1 and not cut.keep else None
        self.top = CANDIDATES if case.sampling == "top_k_p" else 0

    def __call__(
        self,
        x: Tensor,
        w: tuple[Tensor, ...],
        temperature: Tensor | None = None,
        top_p: Tensor | None = None,
        seed: Tensor | None = None,
        top_k: int = TOP_K,
        turn: Turn | None = None,
    ) -> Tensor:
        case, cut = self.case, self.cut
        check_tensor("x", x, (case.m, case.k), (DTYPES[case.dtype],), layout="contiguous", aligned=16)
        check_stream(w, cut)
        settings = self._settings(temperature, top_p, seed, top_k)
        ids = torch.empty(case.m, dtype=torch.int64, device=x.device) if turn is None else turn.token
        if case.m == 0:
            return ids
        sms = sm_count(x.device.index)
        compiled = tuple(head_macros(cut, case, sms, self.claims is not None).items())
        blocks, shared = cut.groups(sms), cut.shared_bytes(sms, self.overlap)
        found = torch.empty(case.m, blocks, self.top or 1, dtype=torch.int64, device=x.device)
        given: dict[str, Any] = {"row_scales": w[1]} if len(w) > 1 else {}
        if self.claims is not None:
            given["claims"] = self.claims.of(w)
        params = parameters(cut, sms, self.overlap, stream=w[0], x=x, y=found, n=case.vocab, **given)
        nvrtc.launch(
            kernel(SOURCE, "lm_head_candidates", compiled, SHARED_MOST - CANDIDATES_BYTES),
            (blocks,),
            cut.warps * 32 + 64,
            (params, *((turn.position.data_ptr(), turn.moves.data_ptr()) if turn else (0, 0))),
            shared,
            self.overlap,
        )
        arguments = (found.data_ptr(), ids.data_ptr(), np.int32(blocks), np.int32(min(top_k, case.vocab)), *settings)
        arguments += (turned(turn),)
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


def turned(turn: Turn | None) -> Any:
    """`TURN` as a numpy scalar, zeros without a turn. Raises ValueError where rows of the embedding are no words."""
    found = np.zeros((), TURN)
    if turn is None:
        return found
    found["position"] = turn.position.data_ptr()
    if turn.seen is not None:
        found["seen"], found["rows"] = turn.seen.data_ptr(), len(turn.seen)
    if turn.embedding is not None and turn.stream is not None:
        row_bytes = turn.embedding.shape[1] * turn.embedding.itemsize
        if row_bytes % 16 or turn.embedding.data_ptr() % 16 or turn.stream.data_ptr() % 16:
            raise ValueError(f"embedding has rows of {row_bytes} bytes or begins in between: 16 are copied at once")
        found["embedding"], found["stream"] = turn.embedding.data_ptr(), turn.stream.data_ptr()
        found["words"] = row_bytes // 16
    return found
