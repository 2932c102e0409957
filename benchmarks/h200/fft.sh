#!/usr/bin/env bash
# Long convolutions: the gate, then every variant and config at the shapes of FlashFFTConv's paper beside torch's.
#
# Writes fft.json after each case. Predicted: 80 s, 47 s at 8f3b7a9 with fewer configs: 20 for the gate, of which most is
# compiling, and 60 for the times.
set -euo pipefail
LIMIT=${LIMIT:-200}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 80 "$PYTHON" -m kernels check fft_conv --jobs 8
step times 120 "$PYTHON" -m benchmarks.fft "$OUT/fft.json"
step phases 40 "$PYTHON" -m benchmarks.fft_phases
finish
