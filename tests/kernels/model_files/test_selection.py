"""Which files of a folder are read, what is left out, and what a folder is refused for by names alone."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from kernels.cli.run import read_plan
from kernels.model_files import ModelRefused, catalogue, inspect, select_files, select_in
from kernels.model_files.digests import changes_outputs, content_digest, model_digest
from tests.kernels.model_folders import LLAMA, safetensors, weights_of, write_model

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
READ = ["config.json", SINGLE, "tokenizer.json", "1_Pooling/config.json", "LICENSE", "spiece.model"]


def refused(*paths: str, shards: list[str] | None = None) -> list[tuple[str, str]]:
    with pytest.raises(ModelRefused) as caught:
        select_files(["config.json", *paths], shards)
    return [(reason["file"], reason["reason"]) for reason in caught.value.reasons]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("pytorch_model.bin", "pytorch_model.bin"), ("pytorch_model.bin.index.json", "pytorch_model.bin.index.json"),
        ("optimizer.pt", "optimizer.pt"), ("trainer_state.json", "trainer_state.json"),
        ("tokenizer.model.v3", "tokenizer.model.v3"), ("model.fp16.safetensors", "model.fp16.safetensors"),
        ("handler.py", "handler.py"), (".gitattributes", ".gitattributes"),
        (".cache/huggingface/a/b/c/d/e.metadata", ".cache/"), ("original/consolidated.00.pth", "original/"),
        ("checkpoint-7/model.safetensors", "checkpoint-7/"), ("onnx/config.json", "onnx/"),
    ],
)  # fmt: skip
def test_what_is_never_read_is_left_out(path: str, named: str) -> None:
    assert select_files([*READ, path]) == (READ, [named])


def test_a_folder_of_ten_thousand_files_is_no_work() -> None:
    assert select_files(["model.gguf", "notes/a.md", "notes/b.md"]) == (["model.gguf"], ["notes/"])
    others, begin = [f"{number}.safetensors" for number in range(10_000)], time.process_time()
    assert len(select_files(["config.json", SINGLE, *others]).left_out) == len(others)
    assert time.process_time() - begin < 1


def test_weights_in_other_forms_alone_are_refused_all_at_once() -> None:
    alone = refused("model.gguf", "pytorch_model.bin", "weights.zip", "original/a.pth", "original/b.pth", "train.py")
    assert [file for file, _ in alone] == ["model.gguf", "pytorch_model.bin", "weights.zip", "original/"]
    assert "pickle" in alone[1][1]


@pytest.mark.parametrize(
    ("file", "reason"),
    [("model.zip", "unpack it"), ("adapter_config.json", "merge it into its base model"), ("a.jpg", "is missing")],
)
def test_what_is_no_model_directory_is_refused_for_what_it_is(file: str, reason: str) -> None:
    with pytest.raises(ModelRefused, match=reason):
        select_files([file, "adapter_model.safetensors", "sub/pytorch_model.bin"])


def test_a_folder_of_models_is_refused_with_the_models_names() -> None:
    with pytest.raises(ModelRefused, match=r"is missing; .*; hand in a or b/c, where there is one"):
        select_files(["b/c/config.json", "b/c/model.safetensors", "a/config.json", "README.md"])


def test_the_index_says_which_files_are_the_weights() -> None:
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    folder = ["config.json", INDEX, *shards, "consolidated.safetensors"]
    assert select_files(folder) == (folder[:-1], folder[-1:])
    assert select_files([*folder, "more.safetensors"], shards).left_out == [
        "consolidated.safetensors",
        "more.safetensors",
    ]
    assert "names other files" in refused(INDEX, *shards, SINGLE, shards=shards)[0][1]
    assert refused(shards[0])[0][0] == shards[0]
    assert refused(INDEX, shards[0], shards=[*shards, "a.safetensors"]) == [
        ("a.safetensors", f"the file, which {INDEX} names, is missing, and 1 more of them")
    ]


def test_safetensors_that_the_index_does_not_name_are_no_part_of_the_model(tmp_path: Path) -> None:
    shard, stray = safetensors(weights_of(LLAMA)), safetensors({"output.weight": ("BF16", [1], bytes(2))})
    folder = write_model(tmp_path / "m")
    index = {"weight_map": dict.fromkeys(weights_of(LLAMA), "model-1.safetensors")}
    for name, content in {
        "model-1.safetensors": shard,
        "more.safetensors": stray,
        INDEX: json.dumps(index).encode(),
    }.items():
        (folder / name).write_bytes(content)
    facts = inspect(folder)
    assert set(facts.files) == {"config.json", "model-1.safetensors", INDEX}
    assert facts.notes == ["Left out, as the model is read without them: more.safetensors."]
    assert select_in(folder).left_out == ["more.safetensors"]


def test_a_folder_on_the_disk_is_not_walked_through(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", model__safetensors=b"x")
    for inside in ("1_Pooling", "runs/deep"):
        (folder / inside).mkdir(parents=True)
        (folder / inside / "config.json").write_text("{}")
    assert select_in(folder) == (["1_Pooling/config.json", "config.json", SINGLE], ["runs/"])


RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
PLANS = sorted(
    item for item in RESULTS.rglob("*.plan.json") if item.name != "voice-agent.plan.json"
)  # trained, not of the catalogue
CONFIG: dict[str, Any] = {"model_type": "llama", "hidden_size": 8}
FILES = [("config.json", "ab"), ("model.safetensors", "cd"), ("tokenizer.json", "ef"), ("README.md", "01")]


def _changed(path: str) -> list[tuple[str, str]]:
    return [(name, "99" if name == path else sha256) for name, sha256 in FILES]


def test_the_content_digest_covers_every_file_and_a_catalogue_models_never_changes() -> None:
    assert content_digest(FILES) == content_digest(reversed(FILES))
    others = {content_digest(_changed(path)) for path, _ in FILES} | {content_digest(FILES[:-1])}
    assert len(others | {content_digest(FILES)}) == len(FILES) + 2
    digest = model_digest(catalogue.entry("tiny-gemma")[0], (), generated=True)
    assert digest == "c4aac57f06685688c43d1962318727971457c8a1ab222ddd4bcb2d221da74831"


@pytest.mark.parametrize("generated", [True, False])
def test_the_model_digest_covers_what_changes_the_outputs(generated: bool) -> None:
    own = model_digest(CONFIG, FILES, generated)
    assert own == model_digest(dict(reversed(CONFIG.items())), reversed(FILES), generated)
    assert own == model_digest(CONFIG, _changed("README.md"), generated)
    assert own == model_digest(CONFIG, _changed("config.json"), generated), "what it says counts, not its white space"
    for path in ("model.safetensors", "tokenizer.json"):
        assert own != model_digest(CONFIG, _changed(path), generated)
    assert own != model_digest(CONFIG | {"hidden_size": 16}, FILES, generated)
    assert own != model_digest(CONFIG, FILES, not generated)
    assert (own != model_digest(CONFIG, FILES, generated, seed=1)) == generated


@pytest.mark.parametrize(
    "path",
    [
        "model-00001-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.model",
        "special_tokens_map.json", "processor_config.json", "generation_config.json", "chat_template.jinja",
        "encoder/config.json", "quality.txt",
    ],
)  # fmt: skip
def test_weights_tokenizers_processors_and_settings_count(path: str) -> None:
    assert changes_outputs(path)


@pytest.mark.parametrize(
    "path", ["README.md", "LICENSE", "LICENSE.txt", "NOTICE", "a/b.png", ".gitattributes", ".a/b.json"]
)
def test_documentation_and_hidden_files_do_not_count(path: str) -> None:
    assert not changes_outputs(path)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_committed_plans_are_read_and_name_the_catalogues_models(path: Path) -> None:
    plan = read_plan(path)
    name = path.name.removesuffix(".plan.json")
    config, _ = catalogue.entry(re.split("-without-|-kernels|-load|-in-", name)[0])
    file = ("config.json", "any white space")
    assert plan.model_digest == model_digest(json.loads(json.dumps(config)), [file], generated=True)
