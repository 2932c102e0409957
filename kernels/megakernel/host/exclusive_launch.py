"""One megakernel at a time on a GPU.

Its blocks wait for each other, so all of them must be on the GPU at once, and they take every SM. Two launches whose
blocks are mixed would wait for ever: each holds SMs that the other needs. Nothing in CUDA promises that blocks of two
streams are not mixed, so launches of one process are put in an order, on the GPU: each waits for the event of the one
before, whatever its stream and model. The host does not wait. Other processes have time slices of their own.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()
_LAST: dict[int, torch.cuda.Event] = {}


@contextmanager
def exclusive_launch(device: torch.device, beside: Sequence[torch.cuda.Stream] = ()) -> Iterator[None]:
    """Orders its body's launch after all earlier exclusive launches on this GPU. It uses torch's current stream.

    A launch over several GPUs also uses the streams `beside`, of its other ranks; the body leaves the current stream
    waiting for them.
    """
    stream = torch.cuda.current_stream(device)
    with _LOCK:
        for queue in (stream, *beside):
            if queue.device_index in _LAST:
                queue.wait_event(_LAST[queue.device_index])
        yield
        done = torch.cuda.Event()
        done.record(stream)
        _LAST.update((queue.device_index, done) for queue in (stream, *beside))
