#!/usr/bin/env bash
# A run of the workbench under rising load, to 64 users: TTF64 within 100 ms for 95 % of the requests, before and after.
#
#   bash benchmarks/h200/load.sh [MODEL]        default: llama-3.2-1b
#
# Before is vLLM's server where VLLM names a folder with it, else generate of transformers in batches.
#
# Writes run.json (with money and energy), plan.json, report.html, result.html and both timelines. Predicted: 510 s at
# its 8 minutes (MINUTES), of which the load stage has about 140 s: both sides start in 40 s each, and three loads or
# more of three seconds. With vLLM the stage has about 210 s of them, since it starts in about 70 s, one after the other:
# each has the GPU to itself.
set -euo pipefail
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

baseline=()
if [[ -n $VLLM_PYTHON ]]; then
    WORKER_VLLM=$(dirname "$(dirname "$VLLM_PYTHON")")
    export WORKER_VLLM
    baseline=(--baseline vllm)
fi

step load 585 "$PYTHON" -m benchmarks.workbench_run "${1:-llama-3.2-1b}" --sla benchmarks/h200/load.yaml \
    "${baseline[@]}" --minutes "${MINUTES:-8}" --seconds 550 --data "$scratch/data" --output "$OUT"
keep logs "$scratch/data/log"
finish
