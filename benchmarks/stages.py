"""The stages of a run on a catalogue model with generated weights, one after the other in this process.

    python -m benchmarks.stages striped-hyena-150m --sla benchmarks/h200/hyena.yaml --output RUN.json

A shorter way to a verdict than a whole run of the workbench: without Redis, web, workers and fresh processes. RUN.json
has the commit and the results of all stages, written after each.
"""

import argparse
import json
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.predicted_errors import manifest
from kernels.measure.environment import commit
from kernels.model_files.digests import model_digest
from workbench.cli.sla import read_sla
from workers.documents.prices import default_price_book
from workers.documents.stages import Results, StageInput
from workers.documents.workload import Workload
from workers.harness.context import Context

STAGES = {"admit": 20, "baseline": 10, "profile": 20, "explore": 30, "compose": 30, "verify": 30, "price": 10}
"""The seconds that each may take, where it keeps to them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="the name of a catalogue entry")
    parser.add_argument("--sla", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=sum(STAGES.values()), help="for all stages together")
    options = parser.parse_args()
    model, results, shared = manifest(options.model), Results(), dict[str, Any]()
    model = model.model_copy(update={"digest": model_digest(model.config, (), generated=True)})
    workload = Workload.model_validate({"model": options.model} | read_sla(options.sla))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "config.json").write_text(json.dumps(model.config))
        for stage, seconds in STAGES.items():
            began = time.monotonic()
            context = Context(
                folder,
                folder,
                lambda progress: print(f"    {progress.message}", flush=True),
                seconds * options.seconds / sum(STAGES.values()),
                shared=shared,
            )
            document = StageInput(
                run_id="0", stage=stage, attempt=1, gpu_class=workload.constraints.gpu_classes[0], workload=workload,
                model=model, prices=default_price_book(), results=results,
            )  # fmt: skip
            setattr(results, stage, import_module(f"workers.stages.{stage}").run(document, context))
            content = {"commit": commit(), **results.model_dump(mode="json")}
            options.output.write_text(json.dumps(content, indent=1) + "\n")
            print(f"{stage}: {time.monotonic() - began:.1f} s", flush=True)
    for trial in results.compose.trials if results.compose else []:
        print(f"  {trial.label}: {trial.gate}, {trial.primary and round(trial.primary.value, 3)}. {trial.reason}")
    if results.verify:
        print(f"{results.verify.verdict}: {results.verify.sentence}")


if __name__ == "__main__":
    main()
