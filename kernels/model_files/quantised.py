"""Checkpoints of quantised weights: which formats of `quantization_config` are taken, and the signs of others: without
its scales, a checkpoint's codes are other weights.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernels.model_files.config import FILE
from kernels.model_files.errors import ModelRefused
from kernels.model_files.headers import MAX_DIM, Tensor
from kernels.model_files.strict_json import read_json

FIELD = "quantization_config"
TAKEN = "GPTQ, AWQ, compressed-tensors, fp8, ModelOpt's FP8 and NVFP4, and MXFP4"
BITS_TAKEN = (4, 8)
MODELOPT = "hf_quant_config.json"
FILES = {MODELOPT: "ModelOpt", "quantize_config.json": "GPTQ", "quant_config.json": "AWQ"}
SCALES = re.compile(
    r"(.*\.)?(\w*weight_scale\w*|(input|output|activation|[qkv]|kv)_scale(_inv)?|(\w+_proj_)?scales"
    r"|\w+_proj_scale(_inv)?|weight_packed|qweight|qzeros)"
)
CODES = ("F8_E4M3", "F8_E5M2", "F8_E8M0")
MAX_BYTES = 2**22
NVFP4 = "nvfp4-pack-quantized"
OUTSIDE_LAYERS = re.compile(r"(re:)?[\w.*^\\]*(lm_head|embed\w*|norm)[*$]*")
"""Modules, or patterns of them, that are no matrices of layers."""


@dataclass(frozen=True)
class Scheme:
    """How a checkpoint's weights are quantised. `label` is for people; `layout` is how its tensors lie: `gptq`, `awq`,
    `mxfp4`, `nvfp4`, or `scaled` for those of compressed-tensors and fp8. `zero_offset` is added to stored zero points.
    `group` is the number of inputs, and `block` of outputs and inputs, that share a scale, where the configuration says
    so. With `of_rows` all matrices of the layers are in fp8, and a tensor or each of its rows has one scale.
    """

    label: str
    layout: str
    bits: int = 8
    zero_offset: int = 0
    group: int | None = None
    block: tuple[int, int] | None = None
    of_rows: bool = False


MODELOPT_SCHEMES = {
    "FP8": Scheme("ModelOpt's FP8", "scaled"),
    "NVFP4": Scheme("ModelOpt's NVFP4", "nvfp4", bits=4),
}


def with_quantisers_file(config: Any, files: Mapping[str, Path]) -> Any:
    """The content of config.json, with what ModelOpt's own file says of the weights where it says nothing itself."""
    if not isinstance(config, dict) or config.get(FIELD) is not None or MODELOPT not in files:
        return config
    document = read_json(MODELOPT, files[MODELOPT], MAX_BYTES)
    stated = document.get("quantization") if isinstance(document, dict) else None
    if not isinstance(stated, dict):
        raise ModelRefused(MODELOPT, "quantization", "the field, which says how the weights are quantised, is missing")
    return config | {FIELD: {**stated, "quant_method": "modelopt"}}


def scheme_of(config: Mapping[str, Any]) -> Scheme | None:
    """The scheme of a configuration's weights; None where not quantised. Raises ModelRefused for another format."""
    if isinstance(config.get("quantization"), dict):
        raise ModelRefused(FILE, "quantization", f"MLX's quantised weights are not taken; taken are {TAKEN}")
    if (older := config.get("compression_config")) is not None:
        raise _refused(
            FILE, "compression_config", str(older.get("quant_method", "")) if isinstance(older, dict) else ""
        )
    given = config.get(FIELD)
    if given is None:
        return None
    if not isinstance(given, dict):
        raise ModelRefused(FILE, FIELD, "must be an object")
    method = str(given.get("quant_method") or "").lower()
    if not method and ("load_in_4bit" in given or "load_in_8bit" in given):
        method = "bitsandbytes"
    if method == "gptq":
        return _gptq(given)
    if method == "awq":
        return _awq(given)
    if method == "compressed-tensors":
        return _compressed(given)
    if method in ("fp8", "fbgemm_fp8"):
        block = given.get("weight_block_size")
        of_rows = block is None and _of_all_layers(given)
        return Scheme(f"fp8{_of_block(block)}", "scaled", block=_block(block), of_rows=of_rows)
    if method == "modelopt" and (scheme := MODELOPT_SCHEMES.get(str(given.get("quant_algo")).upper())):
        return replace(scheme, of_rows=scheme.layout == "scaled" and _of_all_layers(given))
    if method == "mxfp4":
        return Scheme("MXFP4", "mxfp4", bits=4)
    shown = f"{method} {given.get('quant_algo')}" if method == "modelopt" else method
    shown = "".join(c for c in shown[:40] if c.isprintable()) or "an unnamed method"
    raise ModelRefused(FILE, FIELD, f"weights quantised by {shown} are not taken; taken are {TAKEN}")


def _of_all_layers(settings: Mapping[str, Any]) -> bool:
    """Whether the modules that stay in 16 bits, by name or pattern, are none but the LM head, embeddings and norms."""
    for name in ("ignore", "modules_to_not_convert", "exclude_modules"):
        modules = settings.get(name) or []
        if isinstance(modules, str):
            modules = [modules]
        if not isinstance(modules, list):
            raise ModelRefused(FILE, f"{FIELD}.{name}", "must be a list of names")
        if not all(isinstance(module, str) and OUTSIDE_LAYERS.fullmatch(module) for module in modules):
            return False
    return True


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the model in bf16; it keeps how weights were quantised, for the model's digest."""
    left_out = (FIELD, "dtype", "torch_dtype")
    fields = {key: value for key, value in config.items() if key not in left_out}
    return fields | {"dtype": "bfloat16", "dequantised_from": config[FIELD]}


def _gptq(settings: Mapping[str, Any]) -> Scheme:
    version = settings.get("checkpoint_format", settings.get("format", "gptq"))
    if version not in ("gptq", "gptq_v2"):
        raise ModelRefused(FILE, f"{FIELD}.checkpoint_format", f"{str(version)[:40]!r} is not one of gptq, gptq_v2")
    bits = _bits(settings.get("bits"), "bits")
    return Scheme(
        f"GPTQ ({bits} bits)",
        "gptq",
        bits,
        zero_offset=int(version == "gptq"),
        group=_group(settings.get("group_size")),
    )


def _awq(settings: Mapping[str, Any]) -> Scheme:
    version = str(settings.get("version", "gemm")).lower()
    if version != "gemm":
        raise ModelRefused(FILE, f"{FIELD}.version", f"{version[:40]!r} is not taken; only gemm's layout is")
    bits = _bits(settings.get("bits", settings.get("w_bit")), "bits")
    return Scheme(
        f"AWQ ({bits} bits)", "awq", bits, group=_group(settings.get("group_size", settings.get("q_group_size")))
    )


def _compressed(settings: Mapping[str, Any]) -> Scheme:
    for name in ("sparsity_config", "transform_config"):
        if settings.get(name) and settings[name] != {"format": "dense"}:
            raise ModelRefused(FILE, f"{FIELD}.{name}", "only weights without sparsity and rotations are taken")
    groups = settings.get("config_groups")
    listed = groups.values() if isinstance(groups, dict) else ()
    sections = [group.get("weights") for group in listed if isinstance(group, dict)]
    schemes = [weights for weights in sections if isinstance(weights, dict)]
    types = {tuple(str(weights.get(name)) for name in ("num_bits", "type", "block_structure")) for weights in schemes}
    if len(types) != 1:
        raise ModelRefused(FILE, f"{FIELD}.config_groups", "all groups must quantise weights, and to the same type")
    weights = schemes[0]
    bits, kind = _bits(weights.get("num_bits"), "config_groups"), weights.get("type")
    formats = {settings.get("format"), *(group.get("format") for group in listed if isinstance(group, dict))}
    if kind == "float" and bits == 4 and NVFP4 in formats:
        return Scheme("compressed-tensors (NVFP4)", "nvfp4", bits)
    if kind not in ("int", "float") or (kind == "float" and bits != 8):
        reason = f"weights of type {str(kind)[:20]} in {bits} bits are not taken"
        raise ModelRefused(FILE, f"{FIELD}.config_groups", reason)
    block = weights.get("block_structure")
    label = f"compressed-tensors ({'fp8' if kind == 'float' else f'{bits} bits'}{_of_block(block)})"
    of_rows = kind == "float" and weights.get("strategy") in ("tensor", "channel") and _of_all_layers(settings)
    return Scheme(label, "scaled", bits, block=_block(block), of_rows=of_rows)


def _bits(bits: Any, name: str) -> int:
    if type(bits) is not int or bits not in BITS_TAKEN:
        raise ModelRefused(FILE, f"{FIELD}.{name}", f"weights of {str(bits)[:20]} bits are not taken, only of 4 and 8")
    return bits


def _group(size: Any) -> int | None:
    if size in (None, -1):
        return None
    if type(size) is not int or not 1 <= size <= MAX_DIM:
        raise ModelRefused(FILE, f"{FIELD}.group_size", "must be a whole number from 1 to 2^40, or -1")
    return size


def _block(block: Any) -> tuple[int, int] | None:
    if block is None:
        return None
    valid = isinstance(block, list) and all(type(size) is int and 1 <= size <= MAX_DIM for size in block)
    if not valid or len(block) != 2:
        reason = "the block of weights that share a scale must be two whole numbers from 1 to 2^40"
        raise ModelRefused(FILE, FIELD, reason)
    return block[0], block[1]


def _of_block(block: Any) -> str:
    return f" in blocks of {' × '.join(map(str, block))}" if isinstance(block, list) else ""


def check_files(files: Mapping[str, Path]) -> None:
    """Refuses the files that quantisers write beside config.json. Raises ModelRefused."""
    for name in FILES.keys() & files.keys():
        document = read_json(name, files[name], MAX_BYTES)
        stated = document.get("quantization") if isinstance(document, dict) else None
        algorithm = stated.get("quant_algo") if isinstance(stated, dict) else None
        raise _refused(name, "", f"{FILES[name]} {algorithm}" if isinstance(algorithm, str) else FILES[name])


def check_tensors(tensors: Iterable[Tensor]) -> None:
    """Refuses scales of quantised weights, and tensors in FP8. Raises ModelRefused."""
    for tensor in sorted(tensors, key=lambda tensor: tensor.dtype not in CODES):
        if tensor.dtype in CODES:
            raise _refused(tensor.file, tensor.name[:200], f"FP8: the tensor's type is {tensor.dtype}")
        if SCALES.fullmatch(tensor.name):
            raise _refused(tensor.file, tensor.name[:200], "the tensor holds their scales")


def _refused(file: str, field: str, what: str) -> ModelRefused:
    named = f" ({what[:60]})" if what else ""
    reason = f"the weights are quantised{named}, but {FILE} has no {FIELD} that says how; taken are {TAKEN}"
    return ModelRefused(file, field, reason)
