"""What bf16 itself loses is measured beside float32, and other bf16 runners beside transformers'."""

from pathlib import Path

import pytest

from benchmarks import bf16_itself
from workers.documents.traffic import Traffic

SAMPLE = Path(__file__).parents[2] / "samples" / "voice-agent"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16_itself, "TRAFFIC", Traffic(prompt_tokens=24, output_tokens=8))
    monkeypatch.setattr(bf16_itself, "TOKENS", 128)
    monkeypatch.setattr(bf16_itself, "OTHERS", bf16_itself.OTHERS[:1])


@pytest.mark.parametrize(
    ("named", "weights", "source"),
    [(str(SAMPLE), "trained", "the model's quality.txt"), ("tiny-llama", "generated", "random token ids")],
)
def test_bf16_is_measured_by_the_kind_of_weights(named: str, weights: str, source: str) -> None:
    today, other = bf16_itself.rows(named, "cpu")
    assert (today.weights, today.source, today.tokens) == (weights, source, 128)
    assert 0 < today.kl < 0.01
    assert today.rise is None
    assert other.rise.value == pytest.approx(other.disagreement - today.disagreement)


def test_a_directory_without_a_text_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(SAMPLE / name)
    with pytest.raises(ValueError, match=r"no tokenizer\.json or no text of 32 tokens"):
        list(bf16_itself.rows(str(tmp_path), "cpu"))
