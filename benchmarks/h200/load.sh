#!/usr/bin/env bash
# A run of the workbench under rising load, to 64 users: TTF64 within 100 ms for 95 % of the requests, before and after.
#
#   bash benchmarks/h200/load.sh [MODEL]        default: llama-3.2-1b
#
# The workload has MINUTES (default 8). Before is vLLM's server where VLLM names a folder with it, else generate of
# transformers in batches.
#
# Writes run.json (with money and energy), plan.json, report.html, result.html and both timelines. Predicted: 590 s
# with MINUTES=11, as Qwen2.5-1.5B took with vLLM at 3b0f9f5; Llama-3.2-1B took 543 s with 10.
set -euo pipefail
MINUTES=${MINUTES:-8}
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

site_run workbench_run "${1:-llama-3.2-1b}" --sla benchmarks/h200/load.yaml ${VLLM_PYTHON:+--baseline vllm} \
    --minutes "$MINUTES"
keep logs "$scratch/data/log"
finish
