"""`python -m kernels megakernel`: proofs, descriptions and timelines from the command line; bad input in a sentence."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.__main__ import main
from kernels.megakernel.host import trace
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import ATTENTION, DOWN, END, GATE_UP, OUT, QKV
from kernels.megakernel.proof import ordering
from kernels.megakernel.proof.structure import instruction_rows
from tests.kernels.megakernel.broken import one_half
from tests.kernels.megakernel.published import CONFIGS
from tests.kernels.megakernel.tiny_models import program_of


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A directory with the configuration of a small model."""
    small = CONFIGS["qwen2.5-0.5b"] | {"num_hidden_layers": 2, "vocab_size": 500}
    (tmp_path / "config.json").write_text(json.dumps(small))
    return tmp_path


def timeline(program: Program) -> np.ndarray:
    """Every instruction takes 100 ns: 30 of waiting, 60 of work, 10 of storing; attention does not mark its input."""
    made = np.zeros((len(program.instructions), max(map(len, program.instructions)), 8), dtype=np.uint64)
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            if words["op"] == END:
                continue
            start = 5_000_000 + sm + 100 * index
            made[sm, index, :4] = start, 0 if words["op"] == ATTENTION else start + 30, start + 90, start + 100
    return made


def test_a_model_is_proven_on_one_gpu_and_on_two(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["megakernel", "validate", str(config)]) == 0
    assert "on 132 SMs: proven" in capsys.readouterr().out
    assert main(["megakernel", "validate", str(config), "--sliced", "--batch", "2", "--splits", "4"]) == 0
    assert main(["megakernel", "validate", str(config), "--sms", "8", "--tensor-parallel-size", "2"]) == 0
    assert "instructions a token on 8 SMs of each of 2 GPUs: proven" in capsys.readouterr().out


def test_problems_are_listed(config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "effects", one_half)
    assert main(["megakernel", "validate", str(config), "--down-parts", "4", "--out-parts", "2"]) == 1
    out = capsys.readouterr().out
    assert "overwrite: SM" in out
    assert "problems" in out


def test_a_model_is_described_in_each_precision(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["megakernel", "describe", str(config / "config.json"), "--sms", "8"]) == 0
    out = capsys.readouterr().out
    assert "hidden 896" in out
    assert "sms 8" in out
    assert "gate_up            16       1216" in out  # 2 layers on 8 SMs; 4864 / 8 row tiles in each
    sizes = []
    for weights in ("bf16", "fp8", "nvfp4"):
        assert main(["megakernel", "describe", str(config), "--weights", weights]) == 0
        sizes.append(float(capsys.readouterr().out.split("weights a token: ")[1].split()[0]))
    assert sizes[1] == pytest.approx(sizes[0] / 2, rel=0.05)
    assert sizes[2] == pytest.approx(sizes[0] * 0.28125, rel=0.05)
    with pytest.raises(SystemExit):
        main(["megakernel", "describe", str(config), "--weights", "int3"])
    assert "invalid choice: 'int3'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["describe", "nowhere"], "nowhere: no file"),
        (["validate", "tiny-gpt2"], "model_type 'gpt2'"),
        (["describe", "llama-3.2-1b", "--sms", "0"], "--sms: 0 is less than 1"),
        (
            ["validate", "qwen2.5-1.5b", "--tensor-parallel-size", "4"],
            "num_key_value_heads 2: 4 GPUs need a multiple of 4",
        ),
        (["describe", "llama-3.2-1b", "--tensor-parallel-size", "3"], "size 3: the megakernel runs on 1, 2 or 4"),
        (["trace", "nowhere.npz"], "nowhere.npz"),
        (["record", "tiny-llama", "-o", "nowhere/raw.npz"], "--output: there is no directory"),
        (["record", "tiny-llama", "-o", "raw.npz", "--layers", "99"], "--layers: 99 is not 0 to"),
        (["record", "tiny-llama", "-o", "raw.npz", "--prompt", "0"], "--prompt: 0 is less than 1"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["megakernel", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_machine_without_a_gpu_cannot_record(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["megakernel", "record", "tiny-llama", "-o", "raw.npz"]) == 2
    assert "kernels megakernel: device: a timeline is recorded on a Hopper GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"), ("[]", "must hold one JSON object"), ("{}", "model_type: the field is missing"),
        ('{"model_type": "llama", "num_attention_heads": 0, "hidden_size": 64}', "num_attention_heads"),
        ('{"model_type": "llama", "num_attention_heads": 4, "hidden_size": "64"}', "hidden_size"),
        ('{"model_type": "llama", "num_hidden_layers": 1000000000}', "num_hidden_layers"),
        ('{"model_type": "llama"}', "num_attention_heads"),
    ],
)  # fmt: skip
def test_a_bad_config_gets_a_sentence(tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(text)
    assert main(["megakernel", "describe", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_a_trace_is_drawn_also_from_its_chrome_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = program_of("llama")
    trace.save(tmp_path / "raw.npz", [(program, timeline(program))])
    assert main(["megakernel", "trace", str(tmp_path / "raw.npz")]) == 0
    drawn = json.loads((tmp_path / "raw.json").read_text())["traceEvents"]
    spans = [event for event in drawn if event["ph"] == "X"]
    assert {event["tid"] for event in drawn} == set(range(6))
    assert min(event["ts"] for event in spans) == 0
    assert len(spans) == 4 * sum(len(table) - 1 for table in program.instructions)
    first = [event for event in spans if event["tid"] == 2][:4]
    assert [(event["name"], event["dur"]) for event in first] == [
        ("qkv 0", 0.1), ("wait", 0.03), ("work", 0.06), ("publish", 0.01),
    ]  # fmt: skip
    assert first[0]["ts"] == 0.002
    assert all(event["dur"] != 0.03 for event in spans if event["cat"] == "attention")
    out = capsys.readouterr().out
    assert "gate_up" in out
    assert "layer 1, 0." in out
    assert main(["megakernel", "trace", str(tmp_path / "raw.npz"), "--layer", "3"]) == 2
    assert "--layer: 3 is not 0 to 2" in capsys.readouterr().err
    assert main(["megakernel", "trace", str(tmp_path / "raw.npz"), "-o", str(tmp_path / "raw.json.gz")]) == 0
    capsys.readouterr()
    assert gzip.decompress((tmp_path / "raw.json.gz").read_bytes()) == (tmp_path / "raw.json").read_bytes()
    for name in ("raw.json", "raw.json.gz"):
        assert main(["megakernel", "trace", str(tmp_path / name), "--layer", "1"]) == 0
        assert capsys.readouterr().out.splitlines()[:-1] == out.splitlines()[:-1]
    assert main(["megakernel", "trace", str(tmp_path / "raw.json"), "-o", "other.json"]) == 2
    assert "is a Chrome trace already" in capsys.readouterr().err


def test_a_layer_is_drawn_as_text_where_it_left_marks() -> None:
    program = program_of("llama", sms=1, splits=1, heads=4)
    legend, line = trace.draw_activity(trace.timeline_of([(program, timeline(program))]), 0, [0], width=100)
    assert legend.startswith("layer 0, 0.8 µs")
    assert "G gate_up" in legend
    assert "A attention" in legend
    rows = [words["op"] for words in instruction_rows(program.instructions[0]) if words["layer"] == 0]
    assert line.startswith("SM   0 |...Q")
    drawn = [letter for letter, _ in itertools.groupby(line[8:-1].replace(".", "").upper())]
    letters = {QKV: "Q", ATTENTION: "A", OUT: "O", GATE_UP: "G", DOWN: "D"}
    assert drawn == [letters[op] for op, _ in itertools.groupby(rows)]
    program = program_of("llama")
    silent = trace.timeline_of([(program, np.zeros_like(timeline(program)))])
    assert {event["ph"] for event in trace.chrome_trace(silent)["traceEvents"]} == {"M"}
    assert trace.draw_activity(silent, 0, [0]) == ["layer 0 left no marks"]


def test_a_file_that_is_no_trace_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = program_of("llama")
    trace.save(tmp_path / "short.npz", [(program, timeline(program)[:, :3])])
    np.savez(tmp_path / "other.npz", something=np.zeros(3))
    (tmp_path / "other.json").write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 0, "tid": 0}]}')
    (tmp_path / "no.json.gz").write_bytes(b"text")
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    other = "not a timeline of the megakernel"
    for name, said in (
        ("short.npz", "does not fit"), ("other.npz", "not a trace of the megakernel"),
        ("other.json", other), ("no.json.gz", other), ("empty.json", other),
    ):  # fmt: skip
        assert main(["megakernel", "trace", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
