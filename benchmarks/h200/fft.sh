#!/usr/bin/env bash
# Long convolutions: the gate, then every variant and config at the shapes of FlashFFTConv's paper beside their peers.
#
# subquadratic-ops-torch-cu13 is timed where PYTHONPATH names a folder into which its wheel and that of apache-tvm-ffi
# were unpacked; its other requirements are not needed for this. It is proprietary: nothing here brings it.
#
# Writes fft.json after each case. Predicted: 30 s, as it took at 33eb2c7d with that package.
set -euo pipefail
LIMIT=${LIMIT:-200}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 80 "$PYTHON" -m kernels check fft_conv --jobs 8
step times 120 "$PYTHON" -m benchmarks.fft "$OUT/fft.json"
finish
