#!/usr/bin/env bash
# The server through HTTP, beside vLLM where VLLM names a folder with it (use-vllm.sh).
#
#   VLLM=/srv/vllm bash benchmarks/h200/serve-http.sh [MODEL [OPTION...]]       default: llama-3.2-1b
#
# The options are those of `bench serve`, such as --vllm-api-servers 4. Writes serve.json. Predicted: 350 s, as it took
# with qwen2.5-1.5b at cd64475 (llama-3.2-1b at 4895f2b: 280 s), and 495 s with --vllm-api-servers.
set -euo pipefail
LIMIT=${LIMIT:-585}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

step serve 575 "$PYTHON" -m kernels bench serve --model "${1:-llama-3.2-1b}" "${beside[@]}" --poisson 30 \
    --json "$OUT/serve.json" --append "${@:2}"
finish
