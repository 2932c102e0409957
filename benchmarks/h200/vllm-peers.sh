#!/usr/bin/env bash
# vLLM's engine in process and its asynchronous one, each in three fresh processes, beside the kernels runner and the
# megakernel in one, of one model: the first 64 tokens of one request with a prompt of 128. A second model, or other
# shapes, with the same OUT are added to the document.
#
#   VLLM=/srv/vllm bash benchmarks/h200/vllm-peers.sh [MODEL]        default: llama-3.2-1b
#   BATCH=8 PROMPT=1024                                               one other shape
#
# Writes decode-vllm.json. Predicted: 245 s: six starts of vLLM 125, the two others 120.
set -euo pipefail
LIMIT=${LIMIT:-400}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"
export KERNELS_VLLM_PYTHON=$VLLM_PYTHON

step decode 390 "$PYTHON" -m kernels bench decode --model "${1:-llama-3.2-1b}" --batch "${BATCH:-1}" \
    --prompt "${PROMPT:-128}" --runner vllm --runner vllm_async --runner kernels --runner megakernel --processes 3 \
    --json "$OUT/decode-vllm.json" --append
finish
