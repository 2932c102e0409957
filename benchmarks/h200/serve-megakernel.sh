#!/usr/bin/env bash
# The server's megakernel for few requests: change-over and engine in process at 1, 2, 4 and 8 requests at once, beside
# the kernels alone.
#
# Writes serve-megakernel.json and serve-kernels.json. At c062b3c the first engine took 42 s. Predicted: 230 s, of which the
# GPU tests, which had not ended after 60 s, have what is left.
set -euo pipefail
LIMIT=${LIMIT:-290}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

engine=("$PYTHON" -m benchmarks.serve_engine --model llama-3.2-1b --at-once 1 2 4 8)

step megakernel 150 "${engine[@]}" --json "$OUT/serve-megakernel.json"
step kernels 110 "${engine[@]}" --no-megakernel --json "$OUT/serve-kernels.json"
step tests 150 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/server/test_gpu_backends.py
finish
