#!/usr/bin/env bash
# Families with soft caps, rotated parts of heads and layers without rotation on one GPU: small models of Gemma 2, GLM-4
# and SmolLM3 beside transformers, by the megakernel and by the kernels runner, then times of Gemma-2-2B's shape.
#
# Writes decode-families-more.json. Predicted: 140 s. The checks of all families run side by side, for they mostly
# compile.
set -euo pipefail
LIMIT=${LIMIT:-180}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

check() {
    {
        for family in gemma2 glm4 smollm3; do
            for part in fidelity after_prompt proofs; do
                printf '%s\0' "tests/kernels/megakernel/test_gpu_$part.py" "$family and (generated or behind or residual)"
            done
        done
        printf '%s\0' tests/kernels/runners/test_gpu_kernels_runner.py 'further'
    } | xargs -0 -n 2 -P 10 bash -c '"$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --tb=short "$0" -k "$1" 2>&1 | tail -25'
}
export -f check
step checks 110 bash -c check
step decode 130 "$PYTHON" -m kernels bench decode --model gemma-2-2b --batch 1 --prompt 128 --runner megakernel \
    --runner kernels --seconds 4 --json "$OUT/decode-families-more.json"
finish
