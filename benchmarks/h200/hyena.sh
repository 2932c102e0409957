#!/usr/bin/env bash
# The workbench's run of a decoder of long convolutions, whose own are torch's transforms: profile, explore, compose and
# verify, with the library's kernels in their place.
#
#   EXCLUDE=compiled,compiled_tuned,compiled_max_autotune   variants that are not tried: Inductor takes no complex numbers
#
# Writes run.json, plan.json, report.html, result.html and both timelines. Predicted: 170 s: 20 s until the workers
# answer, and 2.5 minutes at most.
set -euo pipefail
LIMIT=${LIMIT:-195}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

excluded=()
EXCLUDE=${EXCLUDE-compiled,compiled_tuned,compiled_max_autotune}
for name in ${EXCLUDE//,/ }; do excluded+=(--exclude "$name"); done
step run 185 "$PYTHON" -m benchmarks.workbench_run striped-hyena-150m --sla benchmarks/h200/hyena.yaml \
    --seconds 170 --data "$scratch/data" "${excluded[@]}" --output "$OUT"
keep logs "$scratch/data/log"
finish
