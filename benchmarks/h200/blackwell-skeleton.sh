#!/usr/bin/env bash
# The skeleton of the Blackwell product on Hopper: its copies, barriers and stores, without tensor cores.
#
# Writes log.txt alone. Predicted: 90 s: some cases, each a compile of 5 s and a small product.
set -euo pipefail
LIMIT=${LIMIT:-170}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step skeleton 160 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --durations=3 tests/kernels/gemm/test_blackwell_skeleton.py
finish
