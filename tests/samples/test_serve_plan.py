"""The end of `make demo`: a plan of the sample is served, and answers one call of curl."""

import json
from pathlib import Path

import pytest

from kernels.model_files.digests import hash_of, model_digest
from kernels.plan import Plan
from samples.serve_plan import NAME, serve_and_ask

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "voice-agent"


def digest_of_sample() -> str:
    config = json.loads((SAMPLE / "config.json").read_text())
    return model_digest(config, [(path.name, hash_of(path)) for path in SAMPLE.iterdir()], False)


def plan(digest: str) -> str:
    return Plan(model_digest=digest, gpu="cpu", runner="eager", dtype="fp32").model_dump_json()


def test_a_plan_of_the_sample_is_served_and_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(plan(digest_of_sample()))
    (tmp_path / "voice-agent").symlink_to(SAMPLE)
    assert serve_and_ask(tmp_path / "plan.json", tmp_path / "voice-agent", tmp_path)
    text = capfd.readouterr().out
    assert f'"model": "{NAME}"' in text
    answer = json.loads(text.splitlines()[-1])
    assert 1 <= answer["usage"]["completion_tokens"] <= 20
    assert answer["choices"][0]["text"]
