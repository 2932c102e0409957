"""weights.cuh and integers.cuh on a Hopper GPU: one chunk of each precision, against the matrix of its bytes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.cuda import nvrtc
from kernels.cuda.launch import Launch, current_stream
from kernels.megakernel.host import device
from kernels.megakernel.program import build_program
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.program.weights import CHUNK_BLOCKS, FORMATS, MXFP4, SHORT_CHUNK_BLOCKS
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS, GPU_MIXTURES
from tests.kernels.megakernel.unit_operands import expected_products, operands

pytestmark = pytest.mark.gpu

UNIT = Path(__file__).with_name("unit.cu")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Binaries are cached by the headers beside their source, which here lie elsewhere."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))


def products(
    weights: str, batch: int, matrix: torch.Tensor, x: torch.Tensor, chunk_blocks: int = CHUNK_BLOCKS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A unit [16, 16 k] times x [batch, 16 k] by the kernel, what its bytes stand for, and how far that may be off."""
    layout, tiles = Layout(sms=1, batch=batch, weights=weights, chunk_blocks=chunk_blocks), matrix.shape[1] // 16
    config = GPU_MIXTURES["gpt_oss"] if weights == MXFP4.name else GPU_CONFIGS["llama"]
    form, shape = layout.expert_form, shape_of(config)
    constants = device.defines(build_program(shape, layout), device.Tuning())
    warps = constants["WARPS"]
    stream, inputs = (operand.cuda() for operand in operands(matrix, x, form))
    out = torch.full((warps, batch, 16), float("nan"), device="cuda")
    shared = form.slot_bytes + inputs.nbytes
    kernel = nvrtc.load(nvrtc.Build.of(UNIT, constants), "unit", shared)
    arguments = (stream.data_ptr(), stream.numel(), inputs.data_ptr(), inputs.nbytes, tiles, out.data_ptr())
    Launch(kernel, (1,), 32 * warps, arguments, current_stream()[1], shared)()
    return out.sum(0).T.double().cpu().numpy(), *expected_products(stream.cpu(), x, form)


@pytest.mark.parametrize("share", [1.0, 0.4], ids=["a whole chunk", "a part"])
@pytest.mark.parametrize("batch", [1, 2, 3, 6, 8])
@pytest.mark.parametrize(
    ("weights", "blocks"),
    [
        *((name, CHUNK_BLOCKS) for name in (*FORMATS, "mxfp4")),
        *((name, SHORT_CHUNK_BLOCKS) for name in ("fp8", "int8")),
    ],
)
def test_a_chunk_is_multiplied(weights: str, blocks: int, batch: int, share: float) -> None:
    form = FORMATS.get(weights, MXFP4)
    tiles = form.tiles * int(blocks * share) if form.read_in_place else int(form.tiles * blocks * share)
    chance = torch.Generator().manual_seed(batch)
    matrix = torch.randn(16, tiles * 16, generator=chance)
    x = torch.randn(batch, tiles * 16, generator=chance)
    result, expected, off = products(weights, batch, matrix, x, blocks)
    assert (np.abs(result - expected) <= off + 1e-5 * ((tiles * 16) ** 0.5 + np.abs(expected))).all()


@pytest.mark.parametrize("weights", FORMATS)
def test_small_weights_beside_large_ones_are_not_lost(weights: str) -> None:
    """Codes that are subnormal numbers, in e4m3 and on the way through bf16; the large ones meet zeros."""
    tiles = FORMATS[weights].chunk_tiles
    e4m3 = (448.0, 2.0**-9)
    largest, size = {"fp8": e4m3, "fp8_layers": e4m3, "int8": (127.0, 1.0)}.get(weights, (6.0, 0.5))
    matrix = torch.full((16, tiles * 16), largest)
    matrix[:, 1::2] = size * torch.sign(torch.randn(16, tiles * 8, generator=torch.Generator().manual_seed(0)))
    x = torch.zeros(1, tiles * 16)
    x[:, 1::2] = 1.0
    result, expected, _ = products(weights, 1, matrix, x)
    assert np.abs(expected).max() > 0
    np.testing.assert_array_equal(result, expected)
