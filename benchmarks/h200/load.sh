#!/usr/bin/env bash
# A run of the workbench under rising load, to 64 users: TTF64 within 100 ms for 95 % of the requests, before and after.
#
#   bash benchmarks/h200/load.sh [MODEL]        default: llama-3.2-1b
#
# Before is vLLM's server where VLLM names a folder with it, else generate of transformers in batches.
#
#   MINUTES=8       of the workload; 11 give p95 of up to 8 users its verdict (predicted)
#   DETACHED=1      starts the run in a session of its own and returns; COLLECT=1, in a later call, waits for it and
#                   takes its results: for calls that are shorter than the run
#
# Writes run.json (with money and energy), plan.json, report.html, result.html and both timelines. Predicted: 470 s at
# 8 minutes, as Qwen2.5-1.5B took with vLLM at cd64475. The load stage had 213 s of them, all but 90 s of which both
# servers took to start, one after the other: each has the GPU to itself. A verdict on p95 takes 166 requests that count
# as one each, some 12 s of one user and 15 s of four.
set -euo pipefail
MINUTES=${MINUTES:-8}
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

baseline=()
if [[ -n $VLLM_PYTHON ]]; then
    WORKER_VLLM=$(dirname "$(dirname "$VLLM_PYTHON")")
    export WORKER_VLLM
    baseline=(--baseline vllm)
fi

workbench_run "${1:-llama-3.2-1b}" --sla benchmarks/h200/load.yaml "${baseline[@]}" --minutes "$MINUTES"
keep logs "$scratch/data/log"
finish
