#!/usr/bin/env bash
# vLLM's engine in process beside the kernels runner and the megakernel, of one model: the first 64 tokens of prompts of
# 128 and 1,024 tokens, one request and 8 at once, all in one document. A second model with the same OUT is added to it.
#
#   VLLM=/srv/vllm bash benchmarks/h200/vllm-peers.sh [MODEL]        default: llama-3.2-1b
#
# Writes decode-vllm.json. Predicted: 360 s, which it took with qwen2.5-1.5b at 4895f2b; with llama-3.2-1b 331 s.
set -euo pipefail
LIMIT=${LIMIT:-500}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"
export KERNELS_VLLM_PYTHON=$VLLM_PYTHON

step decode 480 "$PYTHON" -m kernels bench decode --model "${1:-llama-3.2-1b}" --batch 1 --batch 8 --prompt 128 \
    --prompt 1024 --runner vllm --runner kernels --runner megakernel --json "$OUT/decode-vllm.json" --append
finish
