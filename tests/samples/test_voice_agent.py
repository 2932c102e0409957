"""The sample is what its README says: small, really trained, with text that it never saw."""

import math
import sys
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from workers.documents.workload import Sla

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = ROOT / "samples" / "voice-agent"


@pytest.fixture(scope="module")
def quality() -> torch.Tensor:
    text = (SAMPLE / "quality.txt").read_text("utf-8")
    return torch.tensor([AutoTokenizer.from_pretrained(SAMPLE).encode(text)])


def test_it_is_small_and_holds_what_a_customer_may_hand_in(quality: torch.Tensor) -> None:
    files = [*SAMPLE.iterdir()]
    assert sum(path.stat().st_size for path in files) <= 16_000_000
    needed = {"config.json", "model.safetensors", "tokenizer.json", "quality.txt", "sla.yaml"}
    assert {path.name for path in files} >= needed
    assert {path.suffix for path in files} == {".json", ".safetensors", ".txt", ".yaml"}
    sla = Sla.model_validate(yaml.safe_load((SAMPLE / "sla.yaml").read_text()))
    assert sla.objectives[0].label == "TTF64 p50"
    assert quality.shape[1] >= 6_000, "enough text for a measurement of quality"


def test_it_predicts_text_it_never_saw(quality: torch.Tensor) -> None:
    model = AutoModelForCausalLM.from_pretrained(SAMPLE, dtype=torch.float32).eval()
    windows = quality[0, : 8 * 256].view(8, 256)
    with torch.no_grad():
        loss = model(input_ids=windows, labels=windows).loss.item()
    assert loss < 0.65 * math.log(model.config.vocab_size)


def test_training_text_and_held_out_text_share_no_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "samples"))
    import train

    monkeypatch.setitem(sys.modules, "train", train)
    repeated = "\n\n".join(train.topics.values())
    monkeypatch.setattr(train, "docstrings", lambda: [repeated])  # those of the standard library take seconds
    training, held_out = train.texts()
    assert len(held_out) >= 8
    seen = {paragraph for text in training for paragraph in text.split("\n\n")}
    assert not [p for text in held_out for p in text.split("\n\n") if len(p) >= 80 and p in seen]
