"""A catalogue model with generated weights as a quantised checkpoint, which vLLM and `kernels serve` read.

    python -m benchmarks.quantised_model llama-3.1-8b FOLDER --format fp8 [--device cuda]

awq: codes of four bits, zero points, groups of 128. fp8: as compressed-tensors writes FP8-dynamic, with a scale for
each row and activations that are rounded token by token. Embedding and LM head stay in bf16, as in published ones.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from kernels.cli.served_model import prepare_model
from kernels.dequantising.layouts import AWQ_PLACES
from kernels.model_files.config import FILE
from kernels.model_files.quantised import FIELD
from kernels.model_files.stored_weights import WORD
from kernels.model_files.tensors import INDEX
from kernels.quant import scaled
from kernels.quant.quantised_matrix import GROUP, int4_zero

BITS, WIDE = 4, 128
AWQ = {"quant_method": "awq", "bits": BITS, "group_size": WIDE, "zero_point": True, "version": "gemm"}
OF_8_BITS = {"num_bits": 8, "type": "float", "symmetric": True}
OF_LINEAR = {
    "targets": ["Linear"],
    "weights": OF_8_BITS | {"strategy": "channel", "dynamic": False},
    "input_activations": OF_8_BITS | {"strategy": "token", "dynamic": True},
}
FP8: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "quantization_status": "compressed",
}
FP8 |= {"config_groups": {"group_0": OF_LINEAR}, "ignore": ["lm_head"]}


def pack_awq(codes: Tensor) -> Tensor:
    """Codes [rows, outputs] of 0 to 15 as int32 [rows, outputs / 8], in AWQ's order."""
    grouped = codes.long().unflatten(1, (-1, WORD // BITS))
    placed = torch.empty_like(grouped)
    placed[:, :, list(AWQ_PLACES[BITS])] = grouped
    shifts = torch.arange(0, WORD, BITS, device=codes.device)
    whole = (placed << shifts).sum(-1)
    return torch.where(whole >= 1 << WORD - 1, whole - (1 << WORD), whole).int()


def awq(weight: Tensor) -> dict[str, Tensor]:
    """`qweight`, `qzeros` and `scales` of a weight [outputs, inputs], rounded to nearest."""
    matrix = int4_zero(weight)
    assert matrix.block_scales is not None
    assert matrix.zeros is not None
    scales, zeros = (value[:, :: WIDE // GROUP].T.contiguous() for value in (matrix.block_scales, matrix.zeros))
    return {"qweight": pack_awq(matrix.codes.T), "qzeros": pack_awq(zeros), "scales": scales}


def fp8(weight: Tensor) -> dict[str, Tensor]:
    """`weight` in e4m3 and `weight_scale` [outputs, 1] float32, rounded to nearest: the largest of a row is 448."""
    codes, scales = scaled.of_w(weight, "row")
    return {"weight": codes, "weight_scale": scales}


class Format(NamedTuple):
    config: dict[str, Any]
    quantised: Callable[[Tensor], dict[str, Tensor]]


FORMATS = {"awq": Format(AWQ, awq), "fp8": Format(FP8, fp8)}


def write(plain: Path, folder: Path, form: Format, device: str) -> None:
    """The bf16 model in the folder `plain` as a checkpoint in `folder`, which is made."""
    shutil.copytree(plain, folder, ignore=shutil.ignore_patterns("*.safetensors", INDEX))
    config = json.loads((plain / FILE).read_text())
    (folder / FILE).write_text(json.dumps(config | {FIELD: form.config}, indent=1))
    places: dict[str, str] = {}
    for file in sorted(plain.glob("*.safetensors")):
        stored: dict[str, Tensor] = {}
        for name, weight in load_file(file, device=device).items():
            module, _, last = name.rpartition(".")
            parts = form.quantised(weight) if name.endswith("_proj.weight") else {last: weight}
            stored |= {f"{module}.{part}": tensor.cpu() for part, tensor in parts.items()}
        save_file(stored, folder / file.name, metadata={"format": "pt"})
        places |= dict.fromkeys(stored, file.name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="of the catalogue")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as scratch:
        plain = prepare_model(options.model, "bf16", options.device, Path(scratch) / "model").directory
        write(plain, options.folder, FORMATS[options.format], options.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
