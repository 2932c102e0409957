#!/usr/bin/env bash
# The skeletons of the Blackwell product and attention on Hopper: copies, barriers, softmax and stores, without tensor
# cores. Then Hopper's product of experts, whose scheduler they share.
#
# Writes log.txt alone. Predicted: 50 s, 44 s at 5a9b2fe: some cases, each a compile of 5 s and a small product or
# attention. A wait that does not end traps, and a trap ends the CUDA context: later cases of that file fail
# as well, so each file is a step.
set -euo pipefail
LIMIT=${LIMIT:-290}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

skeleton() { step "$1" "$2" "$PYTHON" -m pytest -m gpu -v -p no:cacheprovider --durations=3 "$3"; }
skeleton attention 150 tests/kernels/blackwell/test_flash_skeleton.py
skeleton product 100 tests/kernels/blackwell/test_gemm_skeleton.py
skeleton experts 100 tests/kernels/gemm/test_grouped.py
finish
