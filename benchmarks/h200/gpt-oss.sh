#!/usr/bin/env bash
# gpt-oss on one GPU: attention with sinks through the gate, small models by the kernels runner and the server beside
# transformers, then steps of gpt-oss-20b's shape in bf16. ONLY=serve serves that shape to 1, 8 and 32 users through
# HTTP, beside vLLM where VLLM names a folder with it (use-vllm.sh).
#
# ONLY="megakernel_checks megakernel" is the megakernel's part, which has not run on a GPU: small models beside float32,
# then steps of gpt-oss-20b with experts in bf16 and MXFP4 beside the kernels runner; megakernel_batch has eight
# sequences. Predicted: 180 s for the checks, 100 for one sequence, 130 for eight; 1.05 ms a token in MXFP4 (950 tokens/s)
# and 1.83 in bf16 (550), for eight 2.5 (3,200) and 6.7 (1,200).
#
# Writes decode-gpt-oss.json, decode-gpt-oss-megakernel.json, decode-gpt-oss-megakernel-8.json and serve-gpt-oss.json.
# The weights are drawn on the GPU. Predicted: 300 s without serve and the megakernel.
# A token took 3.28 ms in bf16 at 63d31c5c. Since then rotation, append and attention with sinks are one kernel; in MXFP4 by
# experts.sh that was 1.72 ms in place of 1.85, where 1.69 were predicted.
set -euo pipefail
LIMIT=${LIMIT:-330}
ONLY=${ONLY:-checks gate decode}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

beside=()
if [[ -n $VLLM_PYTHON ]]; then beside=(--vllm "$VLLM_PYTHON"); fi
pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3)

step checks 110 "${pytest[@]}" tests/kernels/runners/test_gpu_experts.py tests/kernels/server/test_gpu_backends.py \
    -k "gpt-oss"
step gate 100 bash -c '"$PYTHON" -m kernels check attention --variant flash_triton --jobs 12 &&
    "$PYTHON" -m kernels check attention --variant decode_split --jobs 12 &&
    "$PYTHON" -m kernels check step_attention --variant step_hopper --jobs 12'
step decode 150 "$PYTHON" -m kernels bench decode --model gpt-oss-20b --batch 1 --batch 8 --prompt 128 \
    --runner kernels --seconds 3 --json "$OUT/decode-gpt-oss.json"
step megakernel_checks 240 "${pytest[@]}" tests/kernels/megakernel/test_gpu_weights.py \
    tests/kernels/megakernel/test_gpu_experts.py tests/kernels/server/test_gpu_backends.py \
    -k "mxfp4 or gpt_oss or sinks or few"
megakernel=("$PYTHON" -m kernels bench decode --model gpt-oss-20b --prompt 128 --runner megakernel_mxfp4 \
    --runner megakernel --runner kernels_mxfp4 --seconds 2)
step megakernel 150 "${megakernel[@]}" --batch 1 --json "$OUT/decode-gpt-oss-megakernel.json"
step megakernel_batch 200 "${megakernel[@]}" --batch 8 --json "$OUT/decode-gpt-oss-megakernel-8.json"
step serve 170 "$PYTHON" -m kernels bench serve --model gpt-oss-20b --users 1 --users 8 --users 32 "${beside[@]}" \
    --json "$OUT/serve-gpt-oss.json"
finish
