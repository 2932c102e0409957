#!/usr/bin/env bash
# The server through HTTP, beside vLLM where VLLM names a folder with it (use-vllm.sh).
#
#   VLLM=/srv/vllm bash benchmarks/h200/serve-http.sh [MODEL]        default: llama-3.2-1b
#
# Writes serve.json. Predicted: 350 s for llama-3.2-1b, 450 s for qwen2.5-1.5b. Each server: its start (vLLM 60 s, ours
# 60 s with the change-over), then 20 requests of 64 tokens for each of 1, 8, 32, 128 and 256 users, at vLLM's 680 /
# 4,500 / 14,000 / 25,000 / 32,000 tokens/s: 2 + 3 + 3 + 7 + 10 s; 256 users of unequal lengths 15 s; Poisson arrivals
# 30 s. Weights are written once (2.47 GB, 5 s), and the answers of 7 loads of both judged in 40 s.
set -euo pipefail
LIMIT=${LIMIT:-585}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

beside=()
if [[ -n $VLLM_PYTHON ]]; then beside=(--vllm "$VLLM_PYTHON"); fi

step serve 575 "$PYTHON" -m kernels bench serve --model "${1:-llama-3.2-1b}" "${beside[@]}" --poisson 30 \
    --json "$OUT/serve.json" --append
finish
