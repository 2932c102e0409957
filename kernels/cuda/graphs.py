"""CUDA graphs around any function that reads and writes fixed buffers."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

logger = logging.getLogger(__name__)


def capture_graph(function: Callable[[], None], device: torch.device) -> Callable[[], object]:
    """The function as one CUDA graph launch, on other devices as it is. It must work on buffers that keep their
    addresses and be compiled by one call. A graph keeps neither alive: its owner must.
    """
    if device.type != "cuda":
        function()
        function()
        return function
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream(device).wait_stream(side)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def capture_graph_of_several(function: Callable[[], None], devices: Sequence[torch.device]) -> Callable[[], object]:
    """As `capture_graph`, for a function on several GPUs: one graph over all, launched on the first. It must fork from
    the first GPU's current stream and join it at the end. Where CUDA refuses such a graph, the function runs as it is,
    and a warning says so.
    """
    others = [device for device in dict.fromkeys(devices) if device != devices[0]]
    if not others:
        return capture_graph(function, devices[0])
    streams = [torch.cuda.Stream(device) for device in (devices[0], *others)]

    def as_it_is() -> None:
        before = torch.cuda.current_stream(devices[0])
        streams[0].wait_stream(before)
        with _current(streams):
            function()
        before.wait_stream(streams[0])

    _wait_for(devices)
    as_it_is()
    _wait_for(devices)
    current = torch.cuda.current_stream(devices[0])
    try:
        return _Together(function, streams)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        torch.cuda.set_stream(current)  # a capture that was refused leaves its own stream the current one
        logger.warning("no CUDA graph over %s: %s", ", ".join(map(str, devices)), error)
        return as_it_is


def _wait_for(devices: Sequence[torch.device]) -> None:
    for device in devices:
        torch.cuda.synchronize(device)


class _Together:
    """A graph over several GPUs, and the memory of what it allocated on all but the first."""

    def __init__(self, function: Callable[[], None], streams: Sequence[torch.cuda.Stream]) -> None:
        self._graph, self._pools = torch.cuda.CUDAGraph(), []
        with torch.cuda.device(streams[0].device), torch.cuda.graph(self._graph, stream=streams[0]), ExitStack() as all:
            for stream in streams[1:]:
                with torch.cuda.device(stream.device):
                    self._pools.append(torch.cuda.MemPool())
                all.enter_context(torch.cuda.use_mem_pool(self._pools[-1], stream.device))
            all.enter_context(_current(streams))
            function()

    def __call__(self) -> None:
        self._graph.replay()


@contextmanager
def _current(streams: Sequence[torch.cuda.Stream]) -> Iterator[None]:
    """Makes each stream the current one of its GPU, and the first one's GPU the current GPU."""
    with ExitStack() as all:
        for stream in reversed(streams):
            all.enter_context(torch.cuda.stream(stream))
        yield
