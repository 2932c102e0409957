#!/usr/bin/env bash
# The megakernel on one GPU after its launches were rearranged for several: its times, then its GPU tests.
#
# Writes decode-one-rank.json. Predicted: 480 s. `bench decode` 170 s: at c062b3c four runners had not ended after 118 s.
# Tests of ranks and positions 160 s: of tiny models, each compiles a kernel; at c062b3c 18 of them passed in 100 s, all
# of the ranks' among them. Further tests: what is left.
set -euo pipefail
LIMIT=${LIMIT:-500}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tests=tests/kernels/megakernel
pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --durations=5 --maxfail=5)

step decode 200 "$PYTHON" -m kernels bench decode --model llama-3.2-1b --batch 1 --prompt 128 --seconds 20 \
    --runner megakernel --runner megakernel_fp8 --runner kernels --json "$OUT/decode-one-rank.json"
step ranks 200 "${pytest[@]}" $tests/test_gpu_ranks.py
step runner 120 "${pytest[@]}" $tests/test_gpu_runner.py
step further 200 "${pytest[@]}" $tests/test_gpu_sampling.py $tests/test_gpu_hostile.py $tests/test_gpu_lossy.py \
    $tests/test_gpu_fidelity.py $tests/test_gpu_weights.py $tests/test_gpu_proofs.py
finish
