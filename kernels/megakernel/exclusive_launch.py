"""One megakernel at a time on a GPU.

Its blocks wait for each other, so all of them must be on the GPU at once, and they take every SM. Two launches whose
blocks are mixed would wait for ever: each holds SMs that the other needs. Nothing in CUDA promises that blocks of two
streams are not mixed, so launches of one process are put in an order, on the GPU: each waits for the event of the one
before, whatever stream and model that was. The host waits for nobody. Other processes are kept apart by time slices.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()
_LAST: dict[int, torch.cuda.Event] = {}


@contextmanager
def exclusive_launch(device: torch.device) -> Iterator[None]:
    """What is launched within, on torch's current stream, comes after all that was launched within another turn."""
    stream = torch.cuda.current_stream(device)
    place = stream.device_index
    with _LOCK:
        if place in _LAST:
            stream.wait_event(_LAST[place])
        yield
        done = torch.cuda.Event()
        done.record(stream)
        _LAST[place] = done
