#!/usr/bin/env bash
# The timeline of a GPU in a result page: a run of Llama-3.2-1B that is cancelled once it is profiled.
#
# Writes run.json, result.html and timeline-before.json. Predicted: 90 s: 20 s until the workers answer, admit 11 s,
# baseline and profile 25 s each.
set -euo pipefail
LIMIT=${LIMIT:-150}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step timeline 140 "$PYTHON" -m benchmarks.workbench_run llama-3.2-1b --sla benchmarks/h200/flagship.yaml \
    --minutes 1.5 --until profile --seconds 120 --data "$scratch/data" --output "$OUT"
finish
