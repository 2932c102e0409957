"""Whether products that overlap the one before give, under a CUDA graph, the bits of those that do not."""

import torch

from kernels.registry import Variant


def assert_same_bits(variant: Variant, case, x: torch.Tensor, weight, residual: torch.Tensor) -> None:
    """Six products in a chain, each x the y before: x and residual [m, n] on a GPU, n = k, weight as `pack` has it."""
    torch.cuda.synchronize()

    def chain(params: dict) -> torch.Tensor:
        call, y = variant.build(case, params), x
        for _ in range(6):
            y = call(y, weight, residual=residual)
        return y

    expected = chain({})
    chain({"pdl": True})
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = chain({"pdl": True})
    for _ in range(20):
        result.zero_()
        graph.replay()
        assert torch.equal(result, expected)
