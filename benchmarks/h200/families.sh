#!/usr/bin/env bash
# Families near Llama on one GPU: each small model's megakernel beside transformers (teacher-forced, behind a prompt,
# layer by layer), then times of Gemma-3-1B's, Granite-3.3-2B's and Phi-4's shapes. Then families with soft caps, rotated
# parts of heads and layers without rotation (Gemma 2, GLM-4 and SmolLM3, by the kernels runner too), with times of
# Gemma-2-2B's shape.
#
# Writes decode-families.json and decode-families-more.json. Predicted: 370 s, 140 for the second part, which
# ONLY="checks_more decode_more" is. The checks of all families run side by side, for they mostly compile.
set -euo pipefail
LIMIT=${LIMIT:-430}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

check() {
    {
        for family in "$@"; do
            if [[ $family == tests/* ]]; then printf '%s\0' "$family" further; continue; fi
            for part in fidelity runner proofs; do
                printf '%s\0' "tests/kernels/megakernel/test_gpu_$part.py" "$family and (generated or behind or residual)"
            done
        done
    } | xargs -0 -n 2 -P 15 bash -o pipefail -c '("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --tb=short "$0" -k "$1" || [[ $? == 5 ]]) 2>&1 | tail -25'
}
export -f check
decode=("$PYTHON" -m kernels bench decode --batch 1 --prompt 128 --runner megakernel --runner kernels --seconds 4)

step checks 110 bash -c 'check "$@"' check phi3 granite olmo2 'gemma and not gemma2 and not gemma3' gemma3
step decode 190 "${decode[@]}" --model gemma-3-1b --model granite-3.3-2b --model phi-4 --json "$OUT/decode-families.json"
step checks_more 110 bash -c 'check "$@"' check gemma2 glm4 smollm3 tests/kernels/runners/test_gpu_kernels_runner.py
step decode_more 130 "${decode[@]}" --model gemma-2-2b --json "$OUT/decode-families-more.json"
finish
