"""Packed weights: fragments as the matrix unit wants them, each SM's in the order in which it takes them."""

import copy

import numpy as np
import pytest
import torch

from kernels.gemm.hopper_tiles import interleaved_gate_up
from kernels.megakernel.host.pack import pack
from kernels.megakernel.host.uploads import uploads
from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD, OUT, QKV
from kernels.megakernel.program.weights import FORMATS, nvfp4_codes, nvfp4_mix, nvfp4_registers
from kernels.model.decoder import Decoder
from kernels.model.rounding import Rounding, rounded_weights
from kernels.quant.formats import of_head
from kernels.quant.quantised_matrix import rounded
from tests.kernels.megakernel.interpreter.units import e2m1_values, matrix_of_unit
from tests.kernels.megakernel.tiny_models import as_numpy, model, program_of


@pytest.mark.parametrize(("weights", "before"), [*((name, False) for name in FORMATS), ("fp8", True), ("nvfp4", True)])
def test_every_stream_holds_its_sections_one_after_the_other(weights: str, before: bool) -> None:
    """Whether the codes are made while the weights are packed, or `before`."""
    name = "qwen2"
    program = program_of(name, out_parts=2, down_parts=3, weights=weights)
    source = copy.deepcopy(model(name))
    found = rounded_weights(source, Decoder(source), weights, Rounding()) if before else None
    arrays = {
        key: as_numpy(value)
        for key, value in uploads(source, program, 8, pack(Decoder(source), program, found)).items()
    }
    block = model(name).model.layers
    matrices = {
        (layer, op): weight
        for layer in range(program.shape.layers)
        for op, weight in (
            (QKV, torch.cat([getattr(block[layer].self_attn, f"{part}_proj").weight for part in "qkv"])),
            (OUT, block[layer].self_attn.o_proj.weight),
            (
                GATE_UP,
                interleaved_gate_up(torch.cat([block[layer].mlp.gate_proj.weight, block[layer].mlp.up_proj.weight])),
            ),
            (DOWN, block[layer].mlp.down_proj.weight),
        )
    }
    head = model(name).lm_head.weight
    matrices[program.shape.layers, HEAD] = torch.cat([head, head.new_zeros(-len(head) % 16, head.shape[1])])
    held = {
        place: rounded(weight.detach(), of_head(weights) if place[1] == HEAD else weights, torch.float32).numpy()
        for place, weight in matrices.items()
    }
    assert (arrays["weight_offset"] % 128 == 0).all()
    for sm, sections in enumerate(program.sections):
        at = int(arrays["weight_offset"][sm])
        for s in sections:
            form = program.layout.form_of(s.matrix)
            size = form.unit_bytes(s.k_tiles)
            columns = slice(s.k_tile * 16, (s.k_tile + s.k_tiles) * 16)
            for tile in range(s.tile, s.tile + s.units):
                unit = matrix_of_unit(arrays["weights"][at : at + size], s.k_tiles, form)
                np.testing.assert_array_equal(unit, held[s.layer, s.matrix][tile * 16 : tile * 16 + 16, columns])
                at += size
        assert at <= arrays["weight_offset"][sm + 1]
    assert len(arrays["weights"]) == arrays["weight_offset"][-1]


def test_the_bits_of_an_nvfp4_word_are_mixed_without_loss() -> None:
    """Any eight codes have a word, and its registers are their values times 2^-126 as pairs of bf16."""
    codes = np.random.default_rng(0).integers(0, 16, (4096, 8)).astype(np.uint8)
    words = np.zeros(len(codes), dtype=np.uint32)
    for at, mixed in enumerate(nvfp4_mix()):
        words ^= (codes[:, at // 4] >> at % 4 & 1).astype(np.uint32) * np.uint32(mixed)
    np.testing.assert_array_equal(nvfp4_codes(words), codes)
    pairs = np.stack(nvfp4_registers(words), axis=-1)
    halves = np.stack([pairs << 16, pairs & 0xFFFF0000], axis=-1).astype(np.uint32).reshape(-1, 8)
    np.testing.assert_array_equal(halves.view(np.float32), e2m1_values(codes) * np.float32(2.0**-126))
