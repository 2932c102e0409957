#!/usr/bin/env bash
# The server through HTTP, beside vLLM where VLLM names a folder with it (use-vllm.sh).
#
#   VLLM=/srv/vllm bash benchmarks/h200/serve-http.sh [MODEL]        default: llama-3.2-1b
#
# Writes serve.json. Predicted: 460 s for llama-3.2-1b. At 194ddaf vLLM took 200 s, 60 of them until it served, and this
# server 160 s without its Poisson arrivals, which take 30 s; the answers of 14 loads are then judged in 70 s.
set -euo pipefail
LIMIT=${LIMIT:-585}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

beside=()
if [[ -n $VLLM_PYTHON ]]; then beside=(--vllm "$VLLM_PYTHON"); fi

step serve 575 "$PYTHON" -m kernels bench serve --model "${1:-llama-3.2-1b}" "${beside[@]}" --poisson 30 \
    --json "$OUT/serve.json" --append
finish
