#!/usr/bin/env bash
# vLLM's engine in process beside the kernels runner and the megakernel, of one model: the first 64 tokens of prompts of
# 128 and 1,024 tokens, one request and 8 at once, all in one document.
#
#   VLLM=/srv/vllm bash benchmarks/h200/vllm-peers.sh [MODEL]        default: llama-3.2-1b
#
# Writes decode-vllm.json. Predicted: 300 s: in each of two processes vLLM starts twice (40 s), the kernels runner is
# tuned twice (25 s), and 30 rounds of three requests of 40 to 140 ms follow.
set -euo pipefail
LIMIT=${LIMIT:-500}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"
export KERNELS_VLLM_PYTHON=$VLLM_PYTHON

for prompt in 128 1024; do
    step "prompt-$prompt" 240 "$PYTHON" -m kernels bench decode --model "${1:-llama-3.2-1b}" --batch 1 --batch 8 \
        --prompt "$prompt" --runner vllm --runner kernels --runner megakernel --json "$OUT/decode-vllm.json" --append
done
finish
