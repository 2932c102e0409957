#!/usr/bin/env bash
# The server's megakernel for few requests: change-over and engine in process at 1, 2, 4 and 8 requests at once, beside
# the kernels alone.
#
# Writes serve-megakernel.json and serve-kernels.json. Predicted: 210 s. GPU tests 30 s; with the megakernel 100 s: four
# instances of 2.47 GB are packed and built (50 s), graphs captured (25 s), then 22 loads of 64 tokens at 0.6 to
# 0.75 ms a token and step: 4 s, and 32 answers are judged (12 s). The kernels alone 70 s. Half of the launches' cost
# is in the answers: a join copies 4 MB, a launch of four tokens copies back 128 KB for each sequence.
set -euo pipefail
LIMIT=${LIMIT:-290}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

engine=("$PYTHON" -m benchmarks.serve_engine --model llama-3.2-1b --at-once 1 2 4 8)

step tests 60 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/serve/test_gpu_backends.py
step megakernel 150 "${engine[@]}" --json "$OUT/serve-megakernel.json"
step kernels 110 "${engine[@]}" --no-megakernel --json "$OUT/serve-kernels.json"
finish
