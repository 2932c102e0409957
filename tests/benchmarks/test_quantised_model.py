"""A model written as a checkpoint: its tensors lie as its format has them, and the reader finds the same values."""

import json

import pytest
import torch
from safetensors.torch import load_file

from benchmarks import quantised_model
from kernels.cli.served_model import prepare_model
from kernels.dequantising import plain_model
from kernels.model import written_model
from kernels.model.decoder import Decoder
from kernels.model.layer_weights import is_fp8
from kernels.model_files import inspect
from kernels.model_files.families import stored_rows
from kernels.quant import scaled
from kernels.quant.quantised_matrix import STORED_ROWS, STORED_ZEROS, int4_zero
from kernels.runners import load
from tests.kernels.quantised_formats import INTERLEAVED
from tests.kernels.runners.engine_models import CONFIGS


def test_each_code_lies_where_the_layout_has_it():
    weight = torch.randn(16, 256, generator=torch.Generator().manual_seed(3)).bfloat16()
    parts, matrix = quantised_model.awq(weight), int4_zero(weight)
    assert {name: tuple(part.shape) for name, part in parts.items()} == {
        "qweight": (256, 2), "qzeros": (2, 2), "scales": (2, 16)
    }  # fmt: skip
    for output, column in ((0, 0), (5, 17), (9, 130), (15, 255)):
        word, number = divmod(output, 8)
        shift = 4 * INTERLEAVED[4].index(number)
        for part, row, known in (("qweight", column, matrix.codes), ("qzeros", column // 128, matrix.zeros)):
            code = int(parts[part][row, word]) >> shift & 15
            assert code == int(known[output, column if part == "qweight" else column // 32])
        assert parts["scales"][column // 128, output] == matrix.block_scales[output, column // 32]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A small model, which is written to the folder `plain`; its q, k and v have biases."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    config = CONFIGS["qwen2"] | {"hidden_size": 128, "intermediate_size": 256}
    own = load(None, config, seed=2, generated=True, dtype="bf16", device="cpu")
    written_model.write(own, tmp_path / "plain")
    return own


def test_fp8_is_read_with_its_codes_and_scales(tmp_path, model):
    quantised_model.write(tmp_path / "plain", tmp_path / "fp8", quantised_model.FORMATS["fp8"], "cpu")
    served = prepare_model(str(tmp_path / "fp8"), "bf16", "cpu", tmp_path / "unused")
    assert served.checkpoint == "compressed-tensors"
    assert stored_rows(served.config) == "fp8"
    assert "fp8" in inspect(tmp_path / "fp8").quantised
    read = load(served.directory, served.config, dtype="bf16", device="cpu")
    assert is_fp8(Decoder(read).layers)
    name = "model.layers.0.mlp.down_proj.weight"
    values, scales = scaled.of_w(model.get_parameter(name), "row")
    assert torch.equal(load_file(served.directory / STORED_ROWS)[name], scales[:, 0])
    assert torch.equal(read.get_parameter(name), (values.float() * scales).bfloat16())


def test_the_model_is_read_with_the_values_of_its_codes(tmp_path, model):
    quantised_model.write(tmp_path / "plain", tmp_path / "awq", quantised_model.FORMATS["awq"], "cpu")
    assert json.loads((tmp_path / "awq/config.json").read_text())["quantization_config"]["quant_method"] == "awq"
    served = prepare_model(str(tmp_path / "awq"), "bf16", "cpu", tmp_path / "unused")
    assert (served.checkpoint, served.stored) == ("awq", tmp_path / "awq"), "vLLM reads the files as they are"
    folder = plain_model(tmp_path / "awq")
    assert served.directory == folder
    values = {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}
    name = "model.layers.0.mlp.down_proj.weight"
    assert torch.equal(values[name], int4_zero(model.get_parameter(name)).values())
    assert torch.equal(values["model.embed_tokens.weight"], model.get_parameter("model.embed_tokens.weight"))
    assert name in load_file(folder / STORED_ZEROS), "plans and the server multiply by the codes"
