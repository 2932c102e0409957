"""The workbench's own verdict on a model's whole-model variants in lower precision, on a text of its own.

    python -m benchmarks.precisions MODEL_DIRECTORY RESULT.json [--variant NAME …] [--seconds N]

The directory has trained weights, `tokenizer.json` and `quality.txt`, as samples/voice-agent. The stages compose and
verify run in this process, once for each variant: everything else is excluded, so verify judges just that one beside
transformers' generate, even where compose had rejected it for its quality. Each row is the trial of compose and the
result of verify, whose first check has the quality on the text.
"""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import registry
from kernels.measure.environment import current_device
from kernels.model_files import answer_of_config
from kernels.model_files.digests import content_digest, model_digest
from kernels.runners import describe
from workers.documents.model import ModelFile, ModelManifest
from workers.documents.prices import default_price_book
from workers.documents.stages import Results, StageInput
from workers.documents.workload import Workload
from workers.harness.cli import process_age
from workers.harness.context import Context, StageError
from workers.stages import compose, verify

VARIANTS = ("megakernel", "megakernel_int8", "megakernel_fp8", "megakernel_nvfp4")
STARTUP_SECONDS = process_age()
TRAFFIC = {"prompt_tokens": 128, "output_tokens": 64}
LIMIT_MS = 100
"""The limit of the time to the last of these tokens, which the verdict is on."""


def manifest(directory: Path) -> ModelManifest:
    """The manifest of a model directory, as the workbench makes it of an upload."""
    config = json.loads((directory / "config.json").read_text("utf-8"))
    files = [
        ModelFile(path=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), size=path.stat().st_size)
        for path in sorted(directory.iterdir())
        if path.is_file()
    ]
    facts, pairs = describe(config), [(file.path, file.sha256) for file in files]
    return ModelManifest(
        digest=model_digest(config, pairs, generated=False),
        content_digest=content_digest(pairs),
        name=directory.name,
        source="upload",
        config=config,
        files=files,
        generated=False,
        architecture=facts.architecture,
        model_type=facts.model_type,
        kind=facts.kind,
        counted=answer_of_config(config).unit,
        parameters=facts.parameters,
        weight_bytes=facts.weight_bytes,
        has_tokenizer=True,
    )


def workload(model: ModelManifest, gpu_class: str, variant: str) -> Workload:
    """A voice agent's traffic; of the whole-model variants only `variant` may be used."""
    others = [each.name for each in registry.variants("model") if each.name not in (variant, "eager")]
    return Workload.model_validate(
        {
            "model": model.digest,
            "traffic": TRAFFIC,
            "objectives": [{"metric": "ttf_n", "n": TRAFFIC["output_tokens"], "percentile": 50, "limit": LIMIT_MS}],
            "constraints": {
                "gpu_classes": [gpu_class],
                "precisions": ["bf16", "int8", "fp8", "nvfp4"],
                "exclude": others,
            },
        }
    )


def row(directory: Path, model: ModelManifest, gpu_class: str, variant: str, seconds: float) -> dict[str, Any]:
    """The trial of one variant and what verify found of it; no `verify` where the trial did not pass."""
    with tempfile.TemporaryDirectory() as artifacts:
        context = Context(directory, Path(artifacts), seconds=seconds, startup_seconds=STARTUP_SECONDS)
        document = StageInput(
            run_id=variant,
            stage="compose",
            attempt=1,
            gpu_class=gpu_class,
            workload=workload(model, gpu_class, variant),
            model=model,
            prices=default_price_book(),
        )
        composed = compose.run(document, context)
        trial = next(each for each in composed.trials if each.label.split(":")[0] == variant)
        found: dict[str, Any] = {"variant": variant, "trial": trial.model_dump()}
        if trial.gate in ("pass", "fail"):
            alone = composed.model_copy(
                update={"trials": [trial.model_copy(update={"chosen": True})], "plan": trial.plan}
            )
            judged = document.model_copy(update={"stage": "verify", "results": Results(compose=alone)})
            found["verify"] = verify.run(judged, context).model_dump()
        return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--variant", action="append", help=f"default: {', '.join(VARIANTS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for compose and verify of one variant")
    given = parser.parse_args(arguments)
    _, gpu, facts = current_device()
    model = manifest(given.directory)
    document: dict[str, Any] = {**facts, "model": model.name, "parameters": model.parameters, "rows": []}
    for variant in given.variant or VARIANTS:
        try:
            document["rows"].append(row(given.directory, model, gpu.gpu_class, variant, given.seconds))
        except StageError as error:
            document["rows"].append({"variant": variant, "error": error.failure.sentence})
        given.result.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
        last = document["rows"][-1]
        print(variant, (last.get("verify") or {}).get("sentence") or last.get("trial") or last["error"], flush=True)


if __name__ == "__main__":
    main()
