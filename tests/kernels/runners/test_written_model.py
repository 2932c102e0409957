"""A model written for other servers: its tokenizer reads each word as one id, whatever the type of the model."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from kernels import runners
from kernels.model import written_model
from kernels.model.written_model import TOKENIZER_FOLDER
from kernels.model_files import catalogue


@pytest.mark.parametrize("kind", ["llama", "qwen2"])  # for qwen2, transformers takes a class of its own
def test_each_word_is_one_id(kind, tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = AutoConfig.for_model(kind, num_hidden_layers=1, vocab_size=50, **sizes)
    folder = tmp_path / "model"
    written_model.write(AutoModelForCausalLM.from_config(config), folder, ["time", "year"])
    tokenizer = AutoTokenizer.from_pretrained(folder / TOKENIZER_FOLDER)
    assert tokenizer("year time t49 else").input_ids == [1, 0, 49, 0]
    assert tokenizer.decode([1, 0, 49]).split() == ["year", "time", "t49"]
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3"])
def test_a_model_that_fits_on_no_device_is_written_layer_by_layer(name, tmp_path, monkeypatch):
    """The files hold what is generated whole, bit by bit. Threads stand in for the processes, which start slowly."""
    monkeypatch.setattr(written_model, "ProcessPoolExecutor", lambda count, _: ThreadPoolExecutor(count))
    config = catalogue.entry(name)[0]
    written_model.write_generated(config, tmp_path / "model", ["cpu", "cpu"], "bf16", seed=2)
    read = runners.load(tmp_path / "model", config, dtype="bf16", device="cpu")
    whole = runners.load(None, config, seed=2, generated=True, dtype="bf16", device="cpu")
    expected = dict(whole.named_parameters())
    assert [own for own, _ in read.named_parameters()] == list(expected)
    assert all(torch.equal(parameter, expected[own]) for own, parameter in read.named_parameters())
    assert AutoTokenizer.from_pretrained(tmp_path / "model" / TOKENIZER_FOLDER)("t7").input_ids == [7]
