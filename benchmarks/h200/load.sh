#!/usr/bin/env bash
# A run of the workbench under rising load, to 64 users: TTF64 within 100 ms for 95 % of the requests, before and after.
#
#   bash benchmarks/h200/load.sh [MODEL]        default: llama-3.2-1b
#
# Before is vLLM's server where VLLM names a folder with it, else generate of transformers in batches.
#
# Writes run.json (with money and energy), plan.json, report.html, result.html and both timelines. Predicted: 500 s at
# its 8 minutes (MINUTES), as it took with vLLM at ca078c3. The load stage had 223 s of them: this server started in
# 48 s, vLLM in 106 s, one after the other, and each has the GPU to itself. Without vLLM it has about 140 s.
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
