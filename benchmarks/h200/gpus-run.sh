#!/usr/bin/env bash
# The workbench's run of Llama-3.1-8B with a promise that one H200 cannot keep, a token within 1.5 ms, on a host of four:
# admit sends it to the class h200x4, and compose tries the megakernel on one, two and four GPUs.
#
#   MINUTES=3.5     of the workload
#
# Writes run.json, plan.json, report.html, result.html and timeline-before.json. Predicted: 230 s, as it took on four
# H200s at f13085ff.
set -euo pipefail
MINUTES=${MINUTES:-3.5}
LIMIT=${LIMIT:-300}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

site_run workbench_run llama-3.1-8b --sla benchmarks/h200/gpus-run.yaml --minutes "$MINUTES" --exclude compiled_tuned
keep logs "$scratch/data/log"
finish
