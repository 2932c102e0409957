#!/usr/bin/env bash
# The server's steps: the gate of attention over pages in one kernel, the GPU tests of the server, then its engine in
# process at 1, 8, 32, 128 and 256 requests at once, by the kernels alone.
#
# Writes serve-steps.json; log.txt has the gate's rows. Predicted: 190 s. The gate 40 s, with Python and NVRTC in each
# of four processes; tests 30 s; the engine 100 s: it captures its graphs in 25 s and serves 22 loads of 64 tokens a
# request at each number, at about 1,500 / 10,000 / 28,000 / 60,000 / 65,000 tokens/s: 1 + 2 + 2 + 3 + 6 s, then
# teacher-forces 8 answers of each by eager transformers, 3 s each. A step reads 2.47 GB: 0.56 ms at 4.4 TB/s.
# Where the gate fails, `step_attention` leaves PREFERRED in kernels/serve/ops.py.
set -euo pipefail
LIMIT=${LIMIT:-290}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 90 "$PYTHON" -m kernels check step_attention --jobs 4
step tests-step 60 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/attention/test_step_attention.py
step tests-serve 60 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/serve
step engine 150 "$PYTHON" -m benchmarks.serve_engine --model llama-3.2-1b --no-megakernel --at-once 1 8 32 128 256 \
    --json "$OUT/serve-steps.json"
finish
