"""Formats of quantised checkpoints for tests: random tensors of a weight, and its values, made one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

F32 = np.float32
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
INTERLEAVED = {4: (0, 2, 4, 6, 1, 3, 5, 7), 8: (0, 2, 1, 3)}
Made = tuple[dict[str, torch.Tensor], Callable[[int, int], Any]]
"""The tensors that a weight is stored in, and its value at an output and an input."""


class Draw:
    """Random tensors of one weight of [outputs, inputs]."""

    def __init__(self, outputs: int, inputs: int) -> None:
        self.outputs, self.inputs = outputs, inputs
        self.generator = torch.Generator().manual_seed(outputs + inputs)

    def words(self, *shape: int) -> torch.Tensor:
        return torch.randint(-(2**31), 2**31, shape, generator=self.generator).to(torch.int32)

    def scales(self, *shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        drawn = torch.randn(shape, generator=self.generator) * 0.01
        drawn.view(-1)[::7] = 0  # a group of zeros
        return drawn.to(dtype)

    def order(self, groups: int) -> torch.Tensor:
        return torch.randint(0, groups, (self.inputs,), generator=self.generator).to(torch.int32)

    def bytes(self, *shape: int) -> torch.Tensor:
        return torch.randint(0, 256, shape, generator=self.generator).to(torch.uint8)


def code(words: np.ndarray, at: tuple[int, int], dim: int, bits: int) -> int:
    """The code at a place of a table whose words hold several along one dimension, the lowest bits first."""
    word, place = divmod(at[dim], 32 // bits)
    result = int(words[(word, at[1]) if dim == 0 else (at[0], word)]) & 0xFFFFFFFF
    return result >> bits * place & (1 << bits) - 1


def gptq(draw: Draw, bits: int, group: int, ordered: bool, version: str = "gptq") -> Made:
    groups, per_word = -(-draw.inputs // group), 32 // bits
    parts = {
        "qweight": draw.words(draw.inputs // per_word, draw.outputs),
        "qzeros": draw.words(groups, draw.outputs // per_word),
        "scales": draw.scales(groups, draw.outputs),
    }
    if ordered:
        parts["g_idx"] = draw.order(groups)
    stored = {name: part.numpy() for name, part in parts.items()}

    def value(output: int, at: int) -> Any:
        mine = stored["g_idx"][at] if ordered else at // group
        zero = code(stored["qzeros"], (mine, output), 1, bits) + (version == "gptq")
        return F32(code(stored["qweight"], (at, output), 0, bits) - zero) * F32(stored["scales"][mine, output])

    return parts, value


def awq(draw: Draw, bits: int, group: int) -> Made:
    groups, per_word = draw.inputs // group, 32 // bits
    parts = {
        "qweight": draw.words(draw.inputs, draw.outputs // per_word),
        "qzeros": draw.words(groups, draw.outputs // per_word),
        "scales": draw.scales(groups, draw.outputs),
    }
    stored = {name: part.numpy() for name, part in parts.items()}

    def place(output: int) -> int:
        word, number = divmod(output, per_word)
        return word * per_word + INTERLEAVED[bits].index(number)

    def value(output: int, at: int) -> Any:
        zero = code(stored["qzeros"], (at // group, place(output)), 1, bits)
        own = code(stored["qweight"], (at, place(output)), 1, bits)
        return F32(own - zero) * F32(stored["scales"][at // group, output])

    return parts, value


def packed(draw: Draw, bits: int, groups: int, zeros: bool, ordered: bool) -> Made:
    per_word, middle = 32 // bits, 1 << bits - 1
    parts = {
        "weight_packed": draw.words(draw.outputs, draw.inputs // per_word),
        "weight_scale": draw.scales(draw.outputs, groups),
        "weight_shape": torch.tensor([draw.outputs, draw.inputs]),
    }
    if zeros and ordered:
        parts["weight_zero_point"] = draw.words(-(-draw.outputs // per_word), groups)
    elif zeros:  # as older versions have them
        parts["weight_zero_point"] = draw.bytes(draw.outputs, groups).view(torch.int8)
    if ordered:
        parts["weight_g_idx"] = draw.order(groups)
    stored = {name: part.numpy() for name, part in parts.items()}

    def value(output: int, at: int) -> Any:
        group = stored["weight_g_idx"][at] if ordered else at // (draw.inputs // groups)
        zero = 0
        if zeros and ordered:
            zero = code(stored["weight_zero_point"], (output, group), 0, bits) - middle
        elif zeros:
            zero = int(stored["weight_zero_point"][output, group])
        own = code(stored["weight_packed"], (output, at), 1, bits) - middle
        return F32(own - zero) * F32(stored["weight_scale"][output, group])

    return parts, value


def int8(draw: Draw, groups: int, zeros: bool) -> Made:
    parts = {
        "weight": draw.bytes(draw.outputs, draw.inputs).view(torch.int8),
        "weight_scale": draw.scales(draw.outputs, groups),
    }
    if zeros:
        parts["weight_zero_point"] = draw.bytes(draw.outputs, groups).view(torch.int8)
    stored = {name: part.numpy() for name, part in parts.items()}

    def value(output: int, at: int) -> Any:
        group = at // (draw.inputs // groups)
        zero = int(stored["weight_zero_point"][output, group]) if zeros else 0
        return F32(int(stored["weight"][output, at]) - zero) * F32(stored["weight_scale"][output, group])

    return parts, value


def e4m3(byte: int) -> float:
    exponent, fraction = byte >> 3 & 15, byte & 7
    size = fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    return -size if byte & 128 else size


def fp8(draw: Draw, shape: tuple[int, ...], block: tuple[int, int], name: str = "weight_scale") -> Made:
    codes = draw.bytes(draw.outputs, draw.inputs)
    codes[codes & 127 == 127] = 128  # NaN becomes -0
    scale = draw.scales(*shape, dtype=torch.float32)
    parts = {"weight": codes.view(torch.float8_e4m3fn), name: scale, "input_scale": draw.scales()}
    table = scale.numpy().reshape(-(-draw.outputs // block[0]), -(-draw.inputs // block[1]))
    return parts, lambda output, at: F32(e4m3(int(codes[output, at]))) * table[output // block[0], at // block[1]]


def nvfp4(draw: Draw, modelopt: bool) -> Made:
    codes, scales = draw.bytes(draw.outputs, draw.inputs // 2), draw.bytes(draw.outputs, draw.inputs // 16)
    scales[scales & 127 == 127] = 0  # NaN
    overall = np.float32(0.0123 if modelopt else 2688.5)
    parts = {
        "weight" if modelopt else "weight_packed": codes,
        "weight_scale": scales.view(torch.float8_e4m3fn),
        "weight_scale_2" if modelopt else "weight_global_scale": torch.tensor(overall).view(() if modelopt else (1,)),
        "input_scale" if modelopt else "input_global_scale": draw.scales(1, dtype=torch.float32),
    }

    def value(output: int, at: int) -> Any:
        own = int(codes[output, at // 2]) >> 4 * (at % 2) & 15
        scale = F32(e4m3(int(scales[output, at // 16])))
        scale = scale * overall if modelopt else scale / overall
        return F32(-E2M1[own & 7] if own & 8 else E2M1[own & 7]) * scale

    return parts, value


def compressed(bits: int = 8, kind: str = "int", **kwargs: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, **kwargs}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32}
FP8_BLOCKS = {"quant_method": "fp8", "weight_block_size": [64, 64]}
FORMATS: dict[str, tuple[dict[str, Any], Callable[[Draw], Made], str]] = {
    "GPTQ": (GPTQ, lambda draw: gptq(draw, 4, 32, False), "GPTQ (4 bits)"),
    "GPTQ in the order of activations": (GPTQ | {"desc_act": True}, lambda draw: gptq(draw, 4, 32, True),
        "GPTQ (4 bits)"),
    "GPTQ, 8 bits, a group": ({"quant_method": "gptq", "bits": 8, "group_size": -1},
        lambda draw: gptq(draw, 8, draw.inputs, False), "GPTQ (8 bits)"),
    "GPTQ, version 2": ({"quant_method": "gptq", "bits": 8, "group_size": 32, "checkpoint_format": "gptq_v2"},
        lambda draw: gptq(draw, 8, 32, True, "gptq_v2"), "GPTQ (8 bits)"),
    "AWQ": (AWQ, lambda draw: awq(draw, 4, 32), "AWQ (4 bits)"),
    "AWQ, 8 bits": (AWQ | {"bits": 8, "group_size": 16}, lambda draw: awq(draw, 8, 16), "AWQ (8 bits)"),
    "W4A16": (compressed(4, group_size=32), lambda draw: packed(draw, 4, draw.inputs // 32, False, False),
              "compressed-tensors (4 bits)"),
    "W4A16 with zeros, in the order of activations": (compressed(4, group_size=32, actorder="group"),
        lambda draw: packed(draw, 4, draw.inputs // 32, True, True), "compressed-tensors (4 bits)"),
    "W8A16 packed": (compressed(8), lambda draw: packed(draw, 8, 1, True, False), "compressed-tensors (8 bits)"),
    "W8A16": (compressed(8), lambda draw: int8(draw, 1, False), "compressed-tensors (8 bits)"),
    "W8A16 with zeros": (compressed(8), lambda draw: int8(draw, 4, True), "compressed-tensors (8 bits)"),
    "fp8 of a tensor": (compressed(8, "float", strategy="tensor"),
        lambda draw: fp8(draw, (1,), (draw.outputs, draw.inputs)), "compressed-tensors (fp8)"),
    "fp8 of a channel": (compressed(8, "float", strategy="channel"),
        lambda draw: fp8(draw, (draw.outputs, 1), (1, draw.inputs)), "compressed-tensors (fp8)"),
    "fp8 of a block": (compressed(8, "float", strategy="block", block_structure=[64, 64]),
        lambda draw: fp8(draw, (-(-draw.outputs // 64), -(-draw.inputs // 64)), (64, 64)),
        "compressed-tensors (fp8 in blocks of 64 × 64)"),
    "DeepSeek's blocks": (FP8_BLOCKS,
        lambda draw: fp8(draw, (-(-draw.outputs // 64), -(-draw.inputs // 64)), (64, 64), "weight_scale_inv"),
        "fp8 in blocks of 64 × 64"),
    "ModelOpt": ({"quant_method": "modelopt", "quant_algo": "FP8"},
        lambda draw: fp8(draw, (), (draw.outputs, draw.inputs)), "ModelOpt's FP8"),
    "NVFP4": (compressed(4, "float", strategy="tensor_group", group_size=16) | {"format": "nvfp4-pack-quantized"},
              lambda draw: nvfp4(draw, False), "compressed-tensors (NVFP4)"),
    "ModelOpt's NVFP4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, lambda draw: nvfp4(draw, True),
        "ModelOpt's NVFP4"),
}  # fmt: skip
