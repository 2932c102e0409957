#!/usr/bin/env bash
# A run of the workbench on the trained sample and its own text.
#
# Writes run.json, plan.json, report.html, result.html and both timelines. Predicted: 175 s: 20 s until the workers
# answer, 2.15 minutes, and the plan once more.
set -euo pipefail
LIMIT=${LIMIT:-300}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step trained 290 "$PYTHON" -m benchmarks.workbench_run samples/voice-agent --sla samples/voice-agent/sla.yaml \
    --seconds 260 --data "$scratch/data" --rerun --output "$OUT"
keep logs "$scratch/data/log"
finish
