"""A plan's file and its model, read and held against each other. Imports without torch."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernels.model_files import ModelRefused, catalogue, select_in
from kernels.model_files.digests import SOURCE_HASHES, hash_of, model_digest
from kernels.model_files.sentence_transformers import in_folder, sentence_modules, with_modules
from kernels.model_files.strict_json import tagged
from kernels.plan import Plan


class PlanRefused(Exception):
    """The plan or the model cannot be run; the text is one sentence."""


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises PlanRefused with the field and the reason."""
    try:
        return Plan.model_validate_json(path.read_text())
    except OSError as error:
        raise PlanRefused(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the document"
        raise PlanRefused(f"{path}: {field}: {first['msg']}") from error


def read_model(directory: Path, plan: Plan) -> tuple[dict[str, Any], bool, int]:
    """Configuration, whether weights are generated, and their seed, of a directory or a catalogue entry's name. Raises
    PlanRefused where the model differs.
    """
    seed = int(plan.options.get("seed", 0))
    config, generated, digest = digested(directory, seed)
    if digest != plan.model_digest:
        what = f"its configuration and files with seed {seed} have" if generated else "its files have"
        raise PlanRefused(
            f"{directory}: the plan is for the model {plan.model_digest[:12]}…, but {what} the digest {digest[:12]}…"
        )
    return config, generated, seed


def digested(directory: Path, seed: int) -> tuple[dict[str, Any], bool, str]:
    """Config, whether weights are generated, and `model_digest` of a model. Raises PlanRefused where there is none."""
    if not directory.is_dir():
        try:
            config = catalogue.entry(str(directory))[0]
        except KeyError as error:
            raise PlanRefused(f"{directory} is no directory, and {error.args[0]}") from error
        return config, True, model_digest(config, (), True, seed)
    config_path = directory / "config.json"
    try:
        config = json.loads(config_path.read_text(), parse_constant=tagged)
    except OSError as error:
        raise PlanRefused(f"{config_path}: {error.strerror}") from error
    except ValueError as error:
        raise PlanRefused(f"{config_path}: no valid JSON: {error}") from error
    try:
        files = select_in(directory).files
        config = with_modules(config, sentence_modules(in_folder(directory)))
    except ModelRefused as error:
        raise PlanRefused(f"{directory}: {error}") from error
    generated = not any(path.endswith(".safetensors") for path in files)
    return config, generated, model_digest(config, _hashes(directory, files), generated, seed)


def _hashes(directory: Path, files: Iterable[str]) -> list[tuple[str, str]]:
    """Path and SHA-256 of each of the directory's files, or of those that it was made of."""
    if (made_of := directory / SOURCE_HASHES).is_file():
        return [(path, sha256) for path, sha256 in json.loads(made_of.read_text())]
    return [(path, hash_of(directory / path)) for path in files]
