"""Every kind of model that is refused, and the sentence that says why."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from kernels.model_files import (
    ModelRefused,
    catalogue,
    check_paths,
    inspect,
    inspect_config,
    kv_bytes_per_token,
    needed_bytes,
)
from tests.kernels.model_folders import LLAMA, refusal, safetensors, weights_of, write_model


def test_a_whole_model_gives_its_facts_and_a_configuration_alone_is_a_generated_one(tmp_path: Path) -> None:
    weights = safetensors(weights_of(LLAMA))
    facts = inspect(write_model(tmp_path / "m", model__safetensors=weights, tokenizer__json=b"{}"))
    assert (facts.kind, facts.architecture, facts.dtype) == ("decoder", "LlamaForCausalLM", "bfloat16")
    assert facts.has_tokenizer
    assert not facts.generated
    assert facts.weight_bytes == 2 * facts.parameters
    assert facts.parameters == inspect_config(LLAMA).parameters
    facts = inspect(write_model(tmp_path / "alone"))
    assert facts.generated
    assert facts.weight_bytes == 2 * facts.parameters


PUBLISHED = {
    "striped-hyena-150m": 155_189_248,  # not published: the rough figure of an unknown family
    "llama-3.2-1b": 1_235_814_400, "llama-3.2-3b": 3_212_749_824, "llama-3.1-8b": 8_030_261_248,
    "qwen2.5-0.5b": 494_032_768, "qwen2.5-1.5b": 1_543_714_304, "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512, "qwen3-0.6b": 596_049_920, "qwen3-1.7b": 1_720_574_976, "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360, "mistral-7b": 7_248_023_552, "llama-3.1-70b": 70_553_706_496,
    "olmoe-1b-7b": 6_919_161_856, "qwen3-30b-a3b": 30_532_122_624, "gemma-2-2b": 2_614_341_888,
    "gemma-3-1b": 999_885_952, "granite-3.3-2b": 2_533_539_840, "phi-4": 14_659_507_200,
    "mixtral-8x7b": 46_702_792_704, "gpt-oss-20b": 20_914_757_184, "smollm2-1.7b": 1_711_376_384,
    "smollm2-360m": 361_821_120, "smollm2-135m": 134_515_008, "tinyllama-1.1b": 1_100_048_384,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in catalogue.names() if not name.startswith("tiny-")])
def test_catalogue_configurations_have_their_published_size(name: str) -> None:
    assert inspect_config(catalogue.entry(name)[0]).parameters == PUBLISHED[name]


def test_sizes_of_a_known_model_and_more_parameters_than_any() -> None:
    config = json.loads(Path("kernels/model_files/catalogue/llama-3.2-1b.json").read_text())
    assert kv_bytes_per_token(config) == 2 * 16 * 8 * 64 * 2
    needed = needed_bytes(config, 1_235_814_400, bytes_per_element=2, batch=1, prompt=128, output=64)
    assert 2.47e9 < needed < 4e9
    big = {"hidden_size": 131_072, "num_hidden_layers": 1024, "intermediate_size": 1_048_576}
    with pytest.raises(ModelRefused, match="parameters"):
        inspect_config(LLAMA | big)


@pytest.mark.parametrize(
    ("model_type", "name", "kind"),
    [
        ("bert", "BertForMaskedLM", "encoder"), ("bert", "BertForSequenceClassification", "encoder"),
        ("bert", "BertModel", "encoder"), ("bert", "BertLMHeadModel", "decoder"),
        ("gpt_neox", "GPTNeoXForCausalLM", "decoder"), ("mixtral", "MixtralForCausalLM", "decoder"),
        ("bloom", "BloomForSequenceClassification", "encoder"), ("falcon", "FalconModel", "encoder"),
        ("xlm", "XLMWithLMHeadModel", "encoder"), ("t5", "T5EncoderModel", "encoder"),
        ("vit", "ViTForImageClassification", "other"),
    ],
)  # fmt: skip
def test_kind(model_type: str, name: str, kind: str) -> None:
    config = {"model_type": model_type, "architectures": [name], "hidden_size": 32, "intermediate_size": 64}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10}
    assert inspect_config(config).kind == kind


@pytest.mark.parametrize(
    "path",
    ["../config.json", "a/../../x.json", "/etc/x.json", "a//x.json", "a\\x.json", "c:x.json", "a\x00.json",
     "a\n.json", "\u202egpj.json", "", "a/b/c/d/e/f/x.json", "x" * 201 + ".json"],
)  # fmt: skip
def test_paths_that_climb_out_or_hide_are_refused(path: str) -> None:
    with pytest.raises(ModelRefused) as caught:
        check_paths([path])
    assert str(caught.value).isprintable()


def test_names_that_clash_are_refused() -> None:
    with pytest.raises(ModelRefused, match="twice"):
        check_paths(["config.json", "Config.json"])
    with pytest.raises(ModelRefused, match="both a file and a folder"):
        check_paths(["a.json", "a.json/b.json"])


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "merges.txt", "tokenizer.model"])
def test_a_pickle_under_another_name_is_refused(tmp_path: Path, protocol: int, name: str) -> None:
    folder = write_model(tmp_path / "m")
    (folder / name).write_bytes(pickle.dumps(Evil(), protocol=protocol))
    refused = refusal(folder)
    assert refused.file == name
    if protocol >= 2 or name != "tokenizer.json":
        assert "pickle" in refused.reason


def test_a_torch_zip_renamed_safetensors_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(OrderedDict()))
    refused = refusal(write_model(tmp_path / "m", model__safetensors=buffer.getvalue()))
    assert refused.file == "model.safetensors"
    assert "zip" in refused.reason


def test_broken_json_links_and_what_is_over_quota_are_refused(tmp_path: Path) -> None:
    refused = refusal(write_model(tmp_path / "m", '{\n  "model_type": "llama",\n  "hidden_size": }'))
    assert (refused.file, refused.field) == ("config.json", "line 3, column 18")
    assert "quota of 10" in refusal(write_model(tmp_path / "m"), quota=10).reason
    folder = write_model(tmp_path / "m")
    (folder / "vocab.txt").symlink_to("/etc/hostname")
    assert "links" in refusal(folder).reason


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("config.json", b'{"model_type": "llama", "model_type": "gpt2"}', "twice"),
        ("config.json", b"[" * 100_000, "nested"), ("config.json", b'{"vocab_size": ' + b"9" * 5000 + b"}", "digits"),
        ("config.json", b"[1]", "object"), ("config.json", b"", "the file is empty"),
        ("config.json", b'{"a": "\xff"}', "UTF-8"),
        ("tokenizer_config.json", b'{"auto_map": {"AutoTokenizer": ["a.B", null]}}', ""),
        ("adapter_config.json", b"{}", "merge"),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_file_that_is_refused_is_named(tmp_path: Path, file: str, content: bytes, reason: str) -> None:
    folder = write_model(tmp_path / "m")
    (folder / file).write_bytes(content)
    refused = refusal(folder)
    assert refused.file == file
    assert reason in refused.reason


def test_settings_that_no_model_has_so_many_of_are_refused(tmp_path: Path) -> None:
    many = json.dumps(LLAMA | {"a": [{}] * 200_000})
    assert refusal(write_model(tmp_path / "m", many)).reason == "there are more than 300,000 entries"
    labels = {"id2label": {str(index): f"LABEL_{index}" for index in range(22_000)}}
    labels["label2id"] = {name: int(each) for each, name in labels["id2label"].items()}
    inspect(write_model(tmp_path / "labels", LLAMA | labels))
    large = write_model(tmp_path / "large", tokenizer_config__json=b'{"a": "' + b"x" * 2**22 + b'"}')
    assert refusal(large).reason == "the file has 4,194,313 bytes, more than the 4,194,304 allowed"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads"), ({"vocab_size": 10**12}, "vocab_size"),
        ({"num_hidden_layers": "16"}, "num_hidden_layers"), ({"num_attention_heads": 5}, "num_attention_heads"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"), ({"rope_theta": float("nan")}, "rope_theta"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"rope_parameters": {"rope_theta": -1.0, "rope_type": "default"}}, "rope_parameters.rope_theta"),
        ({"rope_scaling": {"factor": float("inf")}}, "rope_scaling.factor"),
        ({"text_config": {"hidden_size": 0}}, "text_config.hidden_size"), ({"model_type": "nonesuch"}, "model_type"),
        ({"architectures": ["EvilForCausalLM"]}, "architectures"), ({"torch_dtype": "int4"}, "torch_dtype"),
        ({"model_type": "own", "auto_map": {"AutoModel": "modeling.X"}}, "auto_map"),
        ({"hidden_size": float("inf")}, "hidden_size"),
        ({"time_step_limit": [0.0, {"__float__": "NaN"}]}, "time_step_limit[1]"),
        ({"text_config": {"auto_map": {"AutoModel": "evil/repo--modeling.X"}}}, "text_config.auto_map"),
        ({"_attn_implementation": {"": "evil/kernel"}}, "_attn_implementation"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantization_config"),
        ({"compression_config": {"quant_method": "compressed-tensors"}}, "compression_config"),
    ],
)  # fmt: skip
def test_configurations_that_no_model_has(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    refused = refusal(write_model(tmp_path / "m", LLAMA | change))
    assert (refused.file, refused.field) == ("config.json", field)


def test_numbers_and_code_that_transformers_takes_are_taken(tmp_path: Path) -> None:
    """Infinity in both of transformers' spellings is the same number, and JSON for every reader."""
    spellings = float("inf"), {"__float__": "Infinity"}
    folders = (
        write_model(tmp_path / str(number), LLAMA | {"time_step_limit": [0, limit], "auto_map": {"AutoModel": "x.Y"}})
        for number, limit in enumerate(spellings)
    )
    bare, tagged = (inspect(folder) for folder in folders)
    assert bare.config == tagged.config
    json.dumps(bare.config, allow_nan=False)
    assert bare.notes == [
        "The code that auto_map in config.json names is not run: the model is the one that transformers itself has."
    ]


def test_it_imports_without_torch() -> None:
    code = (
        "import json, sys; from kernels.model_files import inspect_config;"
        "inspect_config(json.load(open('kernels/model_files/catalogue/llama-3.2-1b.json')));"
        "sys.exit(bool({'torch', 'transformers', 'django', 'workbench', 'workers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
