"""Which files of a folder are read, what is left out, and what a folder is refused for by names alone."""

import json
import time
from pathlib import Path

import pytest

from kernels.model_files import ModelRefused, inspect, select_files, select_in
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
        ("pytorch_model.bin", "pytorch_model.bin"),
        ("pytorch_model.bin.index.json", "pytorch_model.bin.index.json"),
        ("optimizer.pt", "optimizer.pt"),
        ("trainer_state.json", "trainer_state.json"),
        ("tokenizer.model.v3", "tokenizer.model.v3"),
        ("model.fp16.safetensors", "model.fp16.safetensors"),
        ("handler.py", "handler.py"),
        (".gitattributes", ".gitattributes"),
        (".cache/huggingface/a/b/c/d/e.metadata", ".cache/"),
        ("original/consolidated.00.pth", "original/"),
        ("checkpoint-7/model.safetensors", "checkpoint-7/"),
        ("onnx/config.json", "onnx/"),
    ],
)
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
    assert facts.notes == ["Left out, as the workbench does not read them: more.safetensors."]
    assert select_in(folder).left_out == ["more.safetensors"]


def test_a_folder_on_the_disk_is_not_walked_through(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", model__safetensors=b"x")
    for inside in ("1_Pooling", "runs/deep"):
        (folder / inside).mkdir(parents=True)
        (folder / inside / "config.json").write_text("{}")
    assert select_in(folder) == (["1_Pooling/config.json", "config.json", SINGLE], ["runs/"])
