"""The two digests of a model: what each covers, and that neither depends on the machine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kernels.cli.run import read_plan
from kernels.model_files import catalogue
from kernels.model_files.digests import changes_outputs, content_digest, model_digest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PLANS = sorted(
    each for each in RESULTS.rglob("*.plan.json") if each.name != "voice-agent.plan.json"
)  # trained, not of the catalogue
CONFIG: dict[str, Any] = {"model_type": "llama", "hidden_size": 8}
FILES = [("config.json", "ab"), ("model.safetensors", "cd"), ("tokenizer.json", "ef"), ("README.md", "01")]


def _changed(path: str) -> list[tuple[str, str]]:
    return [(name, "99" if name == path else sha256) for name, sha256 in FILES]


def test_the_content_digest_covers_every_file() -> None:
    assert content_digest(FILES) == content_digest(reversed(FILES))
    others = {content_digest(_changed(path)) for path, _ in FILES} | {content_digest(FILES[:-1])}
    assert len(others | {content_digest(FILES)}) == len(FILES) + 2


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
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.model",
        "special_tokens_map.json",
        "processor_config.json",
        "generation_config.json",
        "chat_template.jinja",
        "encoder/config.json",
        "quality.txt",
    ],
)
def test_weights_tokenizers_processors_and_settings_count(path: str) -> None:
    assert changes_outputs(path)


@pytest.mark.parametrize(
    "path", ["README.md", "LICENSE", "LICENSE.txt", "NOTICE", "a/b.png", ".gitattributes", ".a/b.json"]
)
def test_documentation_and_hidden_files_do_not_count(path: str) -> None:
    assert not changes_outputs(path)


def test_a_catalogue_models_digest_never_changes() -> None:
    digest = model_digest(catalogue.entry("tiny-gemma")[0], (), generated=True)
    assert digest == "c4aac57f06685688c43d1962318727971457c8a1ab222ddd4bcb2d221da74831"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_committed_plans_are_read_and_name_the_catalogues_models(path: Path) -> None:
    plan = read_plan(path)
    name = path.name.removesuffix(".plan.json")
    config, _ = catalogue.entry(re.split("-without-|-kernels|-load|-in-", name)[0])
    file = ("config.json", "any white space")
    assert plan.model_digest == model_digest(json.loads(json.dumps(config)), [file], generated=True)
