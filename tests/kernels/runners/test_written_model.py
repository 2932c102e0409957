"""A model written for other servers: its tokenizer reads each word as one id, whatever the type of the model."""

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from kernels.model import written_model
from kernels.model.written_model import TOKENIZER_FOLDER


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
