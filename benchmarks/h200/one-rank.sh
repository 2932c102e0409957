#!/usr/bin/env bash
# The megakernel on one GPU after its launches were rearranged for several: its GPU tests, ranks and positions first.
#
# Writes decode-one-rank.json. Predicted: 270 s. Tests of ranks and positions 60 s (tiny models; each compiles a kernel,
# some 5 s). `bench decode` 75 s: 2.47 GB of weights drawn and packed, four runners built, 30 rounds each of 37 ms
# (megakernel), 25 ms (fp8), 46 ms (kernels) and 75 ms (CUDA graphs), and the ceilings. Further tests: what is left.
set -euo pipefail
LIMIT=${LIMIT:-285}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tests=tests/kernels/megakernel
pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --durations=5 --maxfail=5)

step ranks 100 "${pytest[@]}" $tests/test_gpu_ranks.py $tests/test_gpu_positions.py
step decode 110 "$PYTHON" -m kernels bench decode --model llama-3.2-1b --batch 1 --prompt 128 --seconds 20 \
    --runner megakernel --runner megakernel_fp8 --runner kernels --runner cuda_graphs --json "$OUT/decode-one-rank.json"
step runner 120 "${pytest[@]}" $tests/test_gpu_runner.py $tests/test_gpu_after_prompt.py
step further 200 "${pytest[@]}" $tests/test_gpu_sampling.py $tests/test_gpu_hostile.py $tests/test_gpu_lossy.py \
    $tests/test_gpu_fidelity.py $tests/test_gpu_weights.py $tests/test_gpu_proofs.py
finish
