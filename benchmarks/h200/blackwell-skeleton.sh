#!/usr/bin/env bash
# The skeletons of the Blackwell product and attention on Hopper: copies, barriers, softmax and stores, without tensor
# cores.
#
# Writes log.txt alone. Predicted: 150 s: some cases, each a compile of 5 s and a small product or attention.
set -euo pipefail
LIMIT=${LIMIT:-250}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step skeleton 240 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --durations=3 tests/kernels/gemm/test_blackwell_skeleton.py \
  tests/kernels/attention/test_flash_blackwell_skeleton.py
finish
