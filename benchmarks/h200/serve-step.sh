#!/usr/bin/env bash
# The server's steps: the gate of attention over pages in one kernel, its engine in process at 1, 8, 32, 128 and 256
# requests at once, by the kernels alone, then the GPU tests of both.
#
# Writes serve-steps.json; log.txt has the gate's rows. Predicted: 330 s: the gate took 15 s and the engine 54 s at
# c062b3c, the tests compile and were ended after 60 s each. Where the gate fails, `step_attention` leaves PREFERRED in
# kernels/server/execution/ops.py.
set -euo pipefail
LIMIT=${LIMIT:-340}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 90 "$PYTHON" -m kernels check step_attention --jobs 4
step engine 150 "$PYTHON" -m benchmarks.serve_engine --model llama-3.2-1b --no-megakernel --at-once 1 8 32 128 256 \
    --json "$OUT/serve-steps.json"
step tests-step 150 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/attention/test_step_attention.py
step tests-serve 150 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/server
finish
