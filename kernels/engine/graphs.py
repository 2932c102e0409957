"""CUDA graphs around any function that reads and writes fixed buffers."""

from collections.abc import Callable

import torch

WARM_UP_CALLS = 3


def captured(function: Callable[[], None], device: torch.device) -> Callable[[], object]:
    """The function as one CUDA graph launch; on other devices the function itself, warmed up.

    `function` must work only on buffers whose addresses do not change. It compiles and autotunes during the warm-up. A
    graph stores addresses and does not keep buffers or the function alive: its owner must.
    """
    if device.type != "cuda":
        function()
        function()
        return function
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_CALLS):
            function()
    torch.cuda.current_stream(device).wait_stream(side)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay
