"""Models that embed texts, by sentence-transformers' files: what they answer with, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from kernels import runners
from kernels.model.loading import kind_of
from kernels.model.sentence_head import SentenceHead
from kernels.model_files import ModelRefused, answer_of_config, inspect
from kernels.model_files.families import estimated_parameters
from kernels.model_files.sentence_transformers import SentenceModules, in_folder, sentence_modules
from tests.kernels.model_folders import LLAMA, safetensors, weights_of, write_model
from workers.stages.admit import check_tensors

PACKAGE = "sentence_transformers.models."
COMPACT = {"embedding_dimension": 8, "pooling_mode": "lasttoken", "include_prompt": True}
EARLIER = {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_lasttoken": True}
DENSE = {"in_features": 8, "out_features": 3, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"}
WEIGHT = torch.arange(24.0).view(3, 8) / 10


def sentence_model(folder: Path, files: dict[str, object], modules: tuple[str, ...] = ("Pooling",)) -> Path:
    """A folder with these files, and with modules.json that names a transformer and modules behind it."""
    listed = [("", "Transformer"), *((f"{at}_{name}", name) for at, name in enumerate(modules, 1))]
    entries = [{"idx": at, "path": path, "type": PACKAGE + name} for at, (path, name) in enumerate(listed)]
    for name, document in ({"modules.json": entries} | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(document, torch.Tensor):
            save_file({"linear.weight": document}, folder / name)
        else:
            (folder / name).write_text(json.dumps(document))
    return folder


@pytest.mark.parametrize("pooling", [COMPACT, EARLIER])
def test_both_spellings_and_all_modules_give_the_vector(tmp_path: Path, pooling: dict) -> None:
    files = {"1_Pooling/config.json": pooling, "2_Dense/config.json": DENSE, "2_Dense/model.safetensors": WEIGHT}
    files["config_sentence_transformers.json"] = {"prompts": {"query": "Find: "}, "default_prompt_name": "query"}
    files["sentence_bert_config.json"] = {"max_seq_length": 12, "do_lower_case": True}
    folder = sentence_model(tmp_path, files, ("Pooling", "Dense", "Normalize"))
    result = sentence_modules(in_folder(folder))
    assert (result.pooling, result.longest) == (("lasttoken",), 12)
    assert (result.prompted("A"), result.prompted("A", "document")) == ("find: a", "a")
    hidden = torch.rand(2, 5, 8)
    vectors = SentenceHead(result, folder)(hidden, torch.tensor([[1, 1, 1, 0, 0], [1] * 5]))
    expected = torch.stack([WEIGHT @ hidden[0, 2], WEIGHT @ hidden[1, 4]])
    torch.testing.assert_close(vectors, expected / expected.norm(dim=-1, keepdim=True))


@pytest.mark.parametrize(
    ("modules", "files", "sentence"),
    [
        (("Pooling",), {}, "1_Pooling/config.json: the file is missing"),
        (("Pooling",), {"1_Pooling/config.json": {"pooling_mode": "median"}}, "'median' is not one of cls, max, mean"),
        (("Pooling",), {"1_Pooling/config.json": COMPACT | {"include_prompt": False}}, "without the tokens of the"),
        (("A" * 10**6,), {}, "must begin with a Transformer and its Pooling, but are Transformer, AAA"),
        (("SpladePooling",), {}, "must begin with a Transformer and its Pooling, but are Transformer, SpladePooling"),
        (("Pooling", "LSTM"), {"1_Pooling/config.json": COMPACT}, "the module 'LSTM' is not one that is taken"),
        (("Pooling", "Dense"), {"1_Pooling/config.json": COMPACT, "2_Dense/config.json": DENSE},
         "2_Dense/model.safetensors: modules.json names a Dense module, whose weights must be in this file"),
        (("Pooling", "Dense"), {"1_Pooling/config.json": COMPACT, "2_Dense/config.json": DENSE | {"in_features": 9}},
         "in_features: is 9, but the vector before it has 8 values"),
        (("Pooling", "Dense"),
         {"1_Pooling/config.json": COMPACT, "2_Dense/config.json": DENSE, "2_Dense/model.safetensors": WEIGHT[1:]},
         "the tensors are not those of a layer of 8 inputs and 3 outputs"),
        (("Pooling", "Dense"),
         {"1_Pooling/config.json": COMPACT, "2_Dense/config.json": DENSE | {"activation_function": "os.system"}},
         "'os.system' is not one of Identity, Tanh"),
    ],
)  # fmt: skip
def test_modules_that_would_give_other_vectors_are_refused(tmp_path, modules, files, sentence) -> None:
    with pytest.raises(ModelRefused) as refused:
        sentence_modules(in_folder(sentence_model(tmp_path, files, modules)))
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_generator_with_modules_of_sentences_embeds_texts(tmp_path: Path) -> None:
    """Its LM head, which nothing runs, may be missing; the tensors of other modules are not the model's."""
    untied = LLAMA | {"tie_word_embeddings": False}
    write_model(tmp_path, untied, model__safetensors=safetensors(weights_of(LLAMA)))
    with pytest.raises(ModelRefused, match=r"lm_head.weight"):
        inspect(tmp_path)
    files = {"1_Pooling/config.json": COMPACT, "2_Dense/config.json": DENSE, "2_Dense/model.safetensors": WEIGHT}
    result = inspect(sentence_model(tmp_path, files, ("Pooling", "Dense")))
    assert (result.kind, result.architecture) == ("encoder", "LlamaModel")
    assert answer_of_config(result.config).unit == "embeddings"
    assert result.parameters == estimated_parameters(LLAMA)


def test_a_transformer_alone_is_what_its_configuration_says(tmp_path: Path) -> None:
    assert sentence_modules(in_folder(tmp_path)) is None
    assert sentence_modules(in_folder(sentence_model(tmp_path, {}, ()))) is None
    assert in_folder(tmp_path / "inside")("../modules.json") is None, "nothing outside the folder is read"
    assert SentenceModules().layers == ("normalize",)


def test_a_model_that_was_saved_without_its_pooler_is_loaded(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 9, "dtype": "float32"} | sizes
    whole = runners.load(None, config, generated=True, dtype="fp32", device="cpu")
    kept = {name: tensor for name, tensor in whole.state_dict().items() if "pooler" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = runners.load(tmp_path, config, dtype="fp32", device="cpu")
    ids = torch.tensor([[3, 4, 5]])
    assert check_tensors(tmp_path, config) == []
    assert result(ids).last_hidden_state.equal(whole(ids).last_hidden_state)


def test_a_classifier_of_a_decoder_family_takes_batches_without_a_token_for_padding() -> None:
    config = LLAMA | {"architectures": ["LlamaForSequenceClassification"], "num_labels": 1}
    model = runners.load(None, config, generated=True, dtype="fp32", device="cpu")
    assert kind_of(model) == "encoder"
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    torch.testing.assert_close(model(ids).logits[1:], model(ids[1:]).logits)
