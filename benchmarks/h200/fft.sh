#!/usr/bin/env bash
# Long convolutions: the gate, then every variant and config at the shapes of FlashFFTConv's paper beside torch's.
#
# Writes fft.json after each case. Predicted: 40 s, as it took at 5463b235: 12 for the gate, 26 for the times.
set -euo pipefail
LIMIT=${LIMIT:-200}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step gate 80 "$PYTHON" -m kernels check fft_conv --jobs 8
step times 120 "$PYTHON" -m benchmarks.fft "$OUT/fft.json"
finish
