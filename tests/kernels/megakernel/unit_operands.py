"""A unit of 16 rows as it streams, the inputs that it meets in shared memory, and their exact products."""

import numpy as np
import torch
from torch import Tensor

from kernels.megakernel.host.pack import quantise, streams
from kernels.megakernel.program.exchange import columns_of
from kernels.megakernel.program.weights import Format
from tests.kernels.megakernel.interpreter.units import matrix_of_unit

INPUT_ERROR = 1 / 32600
"""How far inputs of integer weights may be off, of the largest of the 32 that share a unit: integers.cuh."""


def operands(matrix: Tensor, x: Tensor, form: Format) -> tuple[Tensor, Tensor]:
    """A unit [16, 16 k] and x [batch, 16 k] as bytes of the stream, and as bf16 in the order of `store_input`."""
    tiles = matrix.shape[1] // 16
    filled = torch.cat([x, torch.full((columns_of(len(x)) - len(x), tiles * 16), torch.nan)])
    permuted = filled.view(-1, tiles, 2, 4, 2).permute(1, 0, 3, 2, 4).contiguous()  # tile, sequence, t, half, pair
    stream = streams(quantise(matrix, form.name), form, 0, tiles)[0].contiguous()
    return stream, permuted.to(torch.bfloat16)


def expected_products(stream: Tensor, x: Tensor, form: Format) -> tuple[np.ndarray, np.ndarray]:
    """The products [16, batch] of the matrix that the stream stands for and x in bf16, and how far they may be off."""
    weights = matrix_of_unit(stream.numpy(), x.shape[1] // 16, form).astype(np.float64)
    exact = x.to(torch.bfloat16).double().numpy()
    products = weights @ exact.T
    if not form.integers:
        return products, np.zeros_like(products)
    padded = np.pad(np.abs(exact), ((0, 0), (0, -x.shape[1] % 32)))
    largest = padded.reshape(len(x), -1, 32).max(axis=2).repeat(32, axis=1)[:, : x.shape[1]]
    return products, np.abs(weights) @ largest.T * INPUT_ERROR
