"""The measured choice of a variant per case, by GPU, driver, versions and code, in KERNELS_CACHE's folder."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernels import registry
from kernels.cuda.nvrtc import cache_directory
from kernels.measure.environment import sources_digest
from kernels.ops import TORCH_VARIANTS, Case
from kernels.tune.autotune import TuningContext, try_case
from kernels.tune.trial import Trial

CODE = ("attention", "blackwell", "cuda", "fused", "gemm", "quant", "tiles")
"""Folders of the competing variants and of the code that they use."""


@dataclass(frozen=True)
class TunedVariant:
    """The variant of a case and why, with its rivals; `at` is UTC. `ms` is None when nothing was measured."""

    variant: str
    params: dict[str, Any]
    ms: float | None
    sentence: str
    at: str = ""


class TuningCache:
    """The choices measured on one machine. Each GPU, driver, library version and code digest has its own file."""

    def __init__(self, environment: Mapping[str, Any], directory: Path | None = None) -> None:
        facts = {name: environment.get(name, "") for name in ("device", "driver", "versions")}
        facts["code"] = sources_digest(Path(__file__).parents[1], CODE)[:16]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        self.path = (directory or cache_directory()) / f"choices-{digest}.json"
        self._facts = facts

    def find(self, case: Case) -> TunedVariant | None:
        """The stored choice for the case; None if it has none or its variant is no longer offered."""
        entry = self._read().get(case.key)
        if entry is None:
            return None
        try:
            choice = TunedVariant(**entry)
            registry.variant(choice.variant)
        except (TypeError, KeyError):
            return None
        return choice

    def keep(self, case: Case, trials: list[Trial]) -> TunedVariant:
        """Stores and returns the choice among the trials of a case; torch's own variant when none was chosen."""
        won = next((trial for trial in trials if trial.chosen), None)
        if won is None:
            return self.fallback(case)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        choice = TunedVariant(won.variant, won.params, won.ms, won.reason, at)
        self._write(self._read() | {case.key: vars(choice)})
        return choice

    def choose(self, case: Case, context: TuningContext, seconds: float = 30.0) -> TunedVariant:
        """The choice for the case: the stored one, else measured now, else torch's own."""
        return self.find(case) or self.keep(case, try_case(context, case, seconds=seconds))

    def fallback(self, case: Case) -> TunedVariant:
        """torch's own variant of the op. Raises KeyError for an op that has none."""
        by_name = {variant.name for variant in registry.variants(case.op)}
        name = next((name for name in TORCH_VARIANTS if name in by_name), None)
        if name is None:
            raise KeyError(f"torch has no variant of {case.op}")
        return TunedVariant(name, {}, None, "torch's own: no variant passed and was timed for this case.")

    def _read(self) -> dict[str, Any]:
        try:
            choices = json.loads(self.path.read_text())["choices"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return choices if isinstance(choices, dict) else {}

    def _write(self, choices: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False) as file:
            json.dump(self._facts | {"choices": choices}, file, indent=1)
        os.replace(file.name, self.path)
