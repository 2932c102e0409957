"""The weights that the tensors of a quantised checkpoint stand for. Only headers are read."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kernels.model_files.config import FILE
from kernels.model_files.errors import ModelRefused
from kernels.model_files.headers import Tensor
from kernels.model_files.quantised import FIELD, Scheme

WORD = 32
FLOATS = ("F64", "F32", "F16", "BF16")
SCALED = ("I8", "F8_E4M3", "F8_E5M2")
SCALES = (*FLOATS, "F8_E8M0")
NVFP4_GROUP = 16
PARTS: dict[str, dict[str, str]] = {
    "gptq": {name: name for name in ("qweight", "qzeros", "scales", "g_idx")},
    "awq": {name: name for name in ("qweight", "qzeros", "scales")},
    "scaled": {
        "weight_packed": "packed",
        "weight_scale": "scale",
        "weight_scale_inv": "scale",
        "weight_zero_point": "zero",
        "weight_shape": "shape",
        "weight_g_idx": "g_idx",
    },
    "nvfp4": {
        "weight_packed": "packed",
        "weight_scale": "scale",
        "weight_global_scale": "weight_global_scale",
        "weight_scale_2": "weight_scale_2",
    },
}
"""What stands behind the name of a module with such weights, and what it is."""
MXFP4_PARTS = {"_blocks": "blocks", "_scales": "scales"}
OF_ACTIVATIONS: tuple[str, ...] = ("input_scale", "input_global_scale", "input_zero_point", "output_scale")
OF_ACTIVATIONS += ("q_scale", "k_scale", "v_scale", "kv_scale")
"""Scales of what is computed, not of weights: they are left out, as all that stays in 16 bits."""
KV_SCALES = "kv_scales"
"""The file of a dequantised model that holds the scales of keys and values, which pages in fp8 use."""
OF_KEYS = re.compile(r"(.*\.self_attn)\.(?:[kv]_proj\.)?(k|v|kv)_scale")
"""The module that computes keys and values, and whose scale it is: as compressed-tensors and as ModelOpt name it."""


@dataclass(frozen=True)
class StoredWeight:
    """A weight and the tensors that it is made of, by what they are; a `plain` one alone where it is not quantised."""

    layout: str
    shape: tuple[int, ...]
    parts: Mapping[str, Tensor] = field(repr=False)

    @property
    def file(self) -> str:
        return next(iter(self.parts.values())).file


def stored_weights(tensors: Mapping[str, Tensor], scheme: Scheme) -> dict[str, StoredWeight]:
    """Every weight of the model by its name. Raises ModelRefused for tensors that do not fit together."""
    weights: dict[str, StoredWeight] = {}
    for name, parts in _group_by_weight(tensors, scheme).items():
        first = next(iter(parts.values()))
        try:
            layout, shape = _shape_of(parts, scheme)
        except _DoesNotFit as error:
            raise ModelRefused(first.file, name[:200], str(error)) from None
        weights[name] = StoredWeight(layout, shape, parts)
    if all(weight.layout == "plain" for weight in weights.values()):
        raise ModelRefused(FILE, FIELD, f"no tensor is quantised, though the weights are said to be {scheme.label}")
    _check_neighbours(weights)
    return weights


def _check_neighbours(weights: Mapping[str, StoredWeight]) -> None:
    """Refuses what stands beside a quantised weight and has no known meaning: it may change what the weight is."""
    quantised = {name.removesuffix("weight") for name, weight in weights.items() if weight.layout != "plain"}
    for name, weight in weights.items():
        module, dot, last = name.rpartition(".")
        if f"{module}{dot}" in quantised and last not in ("weight", "bias"):
            raise ModelRefused(weight.file, name[:200], "the tensor has no known meaning beside a quantised weight")


def left_out(tensors: Mapping[str, Tensor]) -> str:
    """The sentence on scales that are not used; "" where there are none."""
    names = {name.rpartition(".")[2] for name in tensors if not OF_KEYS.fullmatch(name)}
    unused, sentences = [name for name in OF_ACTIVATIONS if name in names], []
    if unused:
        sentences.append(f"Not used: {', '.join(unused)}, as activations and the KV cache stay in 16 bits.")
    if kv_scales(tensors):
        sentences.append("The scales of keys and values are used by a server with KV pages in fp8 alone.")
    return " ".join(sentences)


def kv_scales(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The scales of keys and values, by the names `….self_attn.k_scale` and `v_scale`."""
    matches = ((OF_KEYS.fullmatch(name), tensor) for name, tensor in tensors.items())
    return {f"{match[1]}.{kind}_scale": tensor for match, tensor in matches if match for kind in match[2]}


def as_tensors(weights: Mapping[str, StoredWeight]) -> dict[str, Tensor]:
    """The weights as tensors in bf16, as the configuration is held against them."""
    first = {name: next(iter(weight.parts.values())) for name, weight in weights.items()}
    return {name: replace(first[name], dtype="BF16", shape=weight.shape) for name, weight in weights.items()}


class _DoesNotFit(Exception):
    """Why the tensors of one weight do not fit together, as a sentence."""


def _group_by_weight(tensors: Mapping[str, Tensor], scheme: Scheme) -> dict[str, dict[str, Tensor]]:
    """The tensors of each weight, by what they are."""
    gathered: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        module, _, last = name.rpartition(".")
        if last in OF_ACTIVATIONS:
            continue
        weight, part = name, "plain"
        if scheme.layout == "mxfp4":
            for end in MXFP4_PARTS:
                if name.endswith(end):
                    weight, part = name.removesuffix(end), MXFP4_PARTS[end]
        elif last in PARTS[scheme.layout]:
            weight, part = f"{module}.weight", PARTS[scheme.layout][last]
        parts = gathered.setdefault(weight, {})
        if part in parts:
            raise ModelRefused(tensor.file, name[:200], "the weight has two such tensors")
        parts[part] = tensor
    return gathered


def _shape_of(parts: Mapping[str, Tensor], scheme: Scheme) -> tuple[str, tuple[int, ...]]:
    if set(parts) == {"plain"}:
        if parts["plain"].dtype not in FLOATS:
            raise _DoesNotFit(f"the weight is of type {parts['plain'].dtype}, but has no scale")
        return "plain", parts["plain"].shape
    if scheme.layout == "scaled":
        return _scaled(parts, scheme)
    shape_of = {"gptq": _in_columns, "awq": _in_columns, "mxfp4": _in_blocks, "nvfp4": _in_groups_of_16}
    return scheme.layout, shape_of[scheme.layout](parts, scheme)


def _in_columns(parts: Mapping[str, Tensor], scheme: Scheme) -> tuple[int, ...]:
    """[out, in] of GPTQ, whose words hold weights of one column, and AWQ, whose words hold weights of one row."""
    _need(parts, {"qweight", "qzeros", "scales"}, {"g_idx"})
    _typed(parts, {"qweight": ("I32",), "qzeros": ("I32",), "scales": FLOATS, "g_idx": ("I32",)})
    in_word = WORD // scheme.bits
    rows, columns = _two(parts["qweight"])
    groups, outputs = _two(parts["scales"])
    inputs = rows * in_word if scheme.layout == "gptq" else rows
    stored = outputs if scheme.layout == "gptq" else -(-outputs // in_word)
    if columns != stored or _two(parts["qzeros"]) != (groups, -(-outputs // in_word)):
        raise _DoesNotFit("the shapes of qweight, qzeros and scales do not fit together")
    if "g_idx" in parts:
        if parts["g_idx"].shape != (inputs,):
            raise _DoesNotFit(f"g_idx must name the group of each of the {inputs} inputs")
    elif groups != (-(-inputs // scheme.group) if scheme.group else 1):
        raise _DoesNotFit(f"{groups} groups of scales do not fit {inputs} inputs")
    return outputs, inputs


def _scaled(parts: Mapping[str, Tensor], scheme: Scheme) -> tuple[str, tuple[int, ...]]:
    """The layout and [out, in] of weights with scales as compressed-tensors and fp8 have them."""
    stored = "packed" if "packed" in parts else "plain"
    _need(parts, {stored, "scale"}, {"zero", "shape", "g_idx"} if stored == "packed" else {"zero"})
    kinds = {"packed": ("I32",), "plain": SCALED, "scale": SCALES, "g_idx": ("I32",), "shape": ("I64", "I32")}
    _typed(parts, kinds | {"zero": ("I8", "I32") if stored == "packed" else ("I8",)})
    outputs, inputs = _two(parts[stored])
    inputs *= WORD // scheme.bits if stored == "packed" else 1
    rows, groups = scale_shape(parts["scale"].shape, outputs)
    block_of(rows, groups, (outputs, inputs), scheme)
    if zero := parts.get("zero"):
        zeros = rows if zero.dtype == "I8" else -(-rows // (WORD // scheme.bits))
        if scale_shape(zero.shape, zeros) != (zeros, groups):
            raise _DoesNotFit("the zero points are not as many as the scales")
    if "g_idx" in parts and parts["g_idx"].shape != (inputs,):
        raise _DoesNotFit(f"weight_g_idx must name the group of each of the {inputs} inputs")
    return "packed" if stored == "packed" else "scaled", (outputs, inputs)


def _in_blocks(parts: Mapping[str, Tensor], scheme: Scheme) -> tuple[int, ...]:
    """[experts, in, out] of MXFP4, whose blocks of 32 lie along the inputs."""
    _need(parts, {"blocks", "scales"}, set())
    _typed(parts, {"blocks": ("U8",), "scales": ("U8",)})
    *lead, size = parts["blocks"].shape or (0,)
    if size != 16 or len(lead) < 3 or parts["scales"].shape != tuple(lead):
        raise _DoesNotFit("the shapes of blocks and scales do not fit together")
    *experts, outputs, groups = lead
    return *experts, groups * 2 * size, outputs


def _in_groups_of_16(parts: Mapping[str, Tensor], scheme: Scheme) -> tuple[int, ...]:
    """[out, in] of NVFP4 as compressed-tensors has it, whose global scale divides, and ModelOpt, whose multiplies."""
    stored, scale = ("packed", "weight_global_scale") if "packed" in parts else ("plain", "weight_scale_2")
    _need(parts, {stored, "scale", scale}, set())
    _typed(parts, {stored: ("U8",), "scale": ("F8_E4M3",), scale: ("F32",)})
    outputs, inputs = _two(parts[stored])
    inputs *= 2
    if inputs % NVFP4_GROUP or parts["scale"].shape != (outputs, inputs // NVFP4_GROUP):
        raise _DoesNotFit(f"a weight of [{outputs}, {inputs}] in NVFP4 has a scale for each {NVFP4_GROUP} inputs")
    if parts[scale].numel != 1:
        raise _DoesNotFit(f"its {scale} is one number, not {parts[scale].numel}")
    return outputs, inputs


def scale_shape(shape: tuple[int, ...], outputs: int) -> tuple[int, int]:
    """Rows and columns of scales that are stored as one number, one for each output, or a table."""
    if len(shape) < 2:
        count = math.prod(shape)
        if count not in (1, outputs):
            raise _DoesNotFit(f"{count} scales do not fit {outputs} outputs")
        return count, 1
    if len(shape) != 2 or 0 in shape:
        raise _DoesNotFit("the scales must be a table")
    return shape[0], shape[1]


def block_of(rows: int, groups: int, shape: tuple[int, int], scheme: Scheme) -> tuple[int, int]:
    """How many outputs and inputs share each of `rows` x `groups` scales."""
    outputs, inputs = shape
    if scheme.block and (rows, groups) == (-(-outputs // scheme.block[0]), -(-inputs // scheme.block[1])):
        return scheme.block
    if outputs % rows or inputs % groups:
        raise _DoesNotFit(f"{rows} × {groups} scales do not divide a weight of [{outputs}, {inputs}]")
    return outputs // rows, inputs // groups


def _need(parts: Mapping[str, Tensor], needed: set[str], optional: set[str]) -> None:
    if missing := sorted(needed - set(parts)):
        raise _DoesNotFit(f"its {missing[0]} is missing")
    if surplus := sorted(set(parts) - needed - optional):
        raise _DoesNotFit(f"its {surplus[0]} has no meaning here")


def _typed(parts: Mapping[str, Tensor], kinds: Mapping[str, tuple[str, ...]]) -> None:
    for part, tensor in parts.items():
        if tensor.dtype not in kinds[part]:
            raise _DoesNotFit(f"its {part} is of type {tensor.dtype}, not {' or '.join(kinds[part])}")


def _two(tensor: Tensor) -> tuple[int, int]:
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise _DoesNotFit("a quantised weight and its scales are tables")
    return tensor.shape[0], tensor.shape[1]
