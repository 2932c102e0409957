"""decode.cu run thread by thread on a CPU, on the arrays of the interpreter: every SM's block at once."""

import ctypes
import math
from typing import Any

import numpy as np

from kernels.megakernel.host import device
from kernels.megakernel.program import Program
from kernels.megakernel.program.exchange import word_shapes
from tests.kernels.megakernel.tiny_models import Start
from tests.kernels.on_cpu.translate import library

WORD_ALIGNMENT = 16
ENTRY = """
extern "C" int run(const char* given, int sms, int seed) {
  static Params p;
  const size_t skipped = (char*)&p.weights - (char*)&p;
  memcpy(&p.weights, given + 256, sizeof p - skipped);
  fibers::asynchronous = true, fibers::draw = seed;
  return fibers::run(sms, kThreads, sms, sizeof(Shared) + 4096, [&] { decode(p); });
}
"""
"""The tensor maps, 256 bytes, are left out: keys do not come through the ring here."""


class CpuRun:
    """One launch; `arrays` are those of `uploads`, and `seed` draws when copies land."""

    def __init__(self, program: Program, arrays: dict[str, np.ndarray], begin: Start, count: int, seed: int) -> None:
        shape, layout = program.shape, program.layout
        constants = device.defines(program, device.Tuning(prefetch_bytes=65536))
        if constants["KEYS_IN_RING"]:
            raise ValueError("keys in the ring come by tensor maps, which do not run on a CPU")
        constants |= {"PARAMS_BYTES": "sizeof(Params)", "STAGES": 3, "PREFETCHED_IN_FLIGHT": 3, "LONG_IN_FLIGHT": 3}
        sizes = {key: math.prod(size) for key, size in word_shapes(shape, layout).items()}
        starts, at = {}, 0
        for key, size in sizes.items():
            starts[key], at = at, at + -(-size // WORD_ALIGNMENT) * WORD_ALIGNMENT
        self.words = np.zeros(at + WORD_ALIGNMENT, dtype=np.uint64)
        self.tokens = np.full((count, layout.batch), -1, dtype=np.int32)
        self.logits = np.full((count, layout.batch, shape.vocab), np.nan, dtype=np.float32)
        caches = [_bf16(cache) for cache in (begin.keys, begin.values)]
        self.keys, self.values = caches
        first, cancel = begin.first.astype(np.int64), np.zeros(1, dtype=np.int32)
        held: dict[str, Any] = arrays | {
            "k_cache": self.keys, "v_cache": self.values, "first_token": first, "logits": self.logits,
            "host_tokens": self.tokens, "host_cancel": cancel,
        }  # fmt: skip
        params = np.zeros((), dtype=device.params_of(1))
        for key, array in held.items():
            params[key] = array.ctypes.data
        for key, start in starts.items():
            params[key] = self.words[start:].ctypes.data
        params["fault"] = self.words[at:].ctypes.data
        params["timeout_ns"], params["logits_stride"] = 1 << 62, layout.batch * shape.vocab
        params["count"], params["capacity"], params["first_made"] = count, begin.keys.shape[2], 1
        params["positions"][: layout.batch] = begin.prompt.shape[1]
        params["stop"] = -1
        params["sampling"]["top_p"] = 1
        kernel = library(device.SOURCES / "decode.cu", ENTRY, constants)
        given = params.tobytes()
        self.ended = kernel.run(given, layout.sms, ctypes.c_int(seed))
        self.fault = int(self.words[at])


def _bf16(floats: np.ndarray) -> np.ndarray:
    """bf16 as uint16, of values that are bf16 already."""
    return np.ascontiguousarray((np.ascontiguousarray(floats, np.float32).view(np.uint32) >> 16).astype(np.uint16))
