"""Signs of a quantised checkpoint beside `quantization_config`: without its scales, its codes are other weights."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernels.model_files.errors import ModelRefused
from kernels.model_files.headers import Tensor
from kernels.model_files.strict_json import read_json

FILES = {"hf_quant_config.json": "ModelOpt", "quantize_config.json": "GPTQ", "quant_config.json": "AWQ"}
FIELDS = ("quantization_config", "compression_config")
SCALES = re.compile(
    r"(.*\.)?(\w*weight_scale\w*|(input|output|activation|[qkv]|kv)_scale(_inv)?|(\w+_proj_)?scales"
    r"|\w+_proj_scale(_inv)?|weight_packed|qweight|qzeros)"
)
CODES = ("F8_E4M3", "F8_E5M2", "F8_E8M0")
MAX_BYTES = 2**22


def check_fields(config: dict[str, Any], file: str) -> None:
    """Refuses a configuration that names a quantisation. Raises ModelRefused."""
    for field in FIELDS:
        if (stated := config.get(field)) is not None:
            raise _refused(file, field, str(stated.get("quant_method", "")) if isinstance(stated, dict) else "")


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
    return ModelRefused(
        file, field, f"quantised checkpoints are not taken{named}; hand in the weights before quantisation"
    )
