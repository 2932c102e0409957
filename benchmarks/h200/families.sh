#!/usr/bin/env bash
# Families near Llama on one GPU: each small model's megakernel beside transformers (teacher-forced, behind a prompt,
# layer by layer), then times of Gemma-3-1B's, Granite-3.3-2B's and Phi-4's shapes.
#
# Writes decode-families.json. Predicted: 230 s. The checks of all families run side by side, for they mostly compile.
set -euo pipefail
LIMIT=${LIMIT:-250}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

check() {
    for family in phi3 granite olmo2 'gemma and not gemma2 and not gemma3' gemma3; do
        for part in fidelity after_prompt proofs; do
            printf '%s\0' "tests/kernels/megakernel/test_gpu_$part.py" "$family and (generated or behind or residual)"
        done
    done | xargs -0 -n 2 -P 15 bash -c '"$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --tb=short "$0" -k "$1" 2>&1 | tail -25'
}
export -f check
step checks 110 bash -c check
step decode 190 "$PYTHON" -m kernels bench decode --model gemma-3-1b --model granite-3.3-2b --model phi-4 --batch 1 \
    --prompt 128 --runner megakernel --runner kernels --seconds 4 --json "$OUT/decode-families.json"
finish
