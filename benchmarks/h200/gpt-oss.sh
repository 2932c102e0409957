#!/usr/bin/env bash
# gpt-oss on one GPU: attention with sinks through the gate, small models by the kernels runner, the megakernel and the
# server beside transformers, then steps of gpt-oss-20b's shape in the megakernel, with experts in bf16 and MXFP4, beside
# the kernels runner, for one sequence and eight. ONLY=serve serves that shape to 1, 8 and 32 users through HTTP, beside
# vLLM where VLLM names a folder with it (use-vllm.sh).
#
# Writes decode-gpt-oss.json, decode-gpt-oss-8.json and serve-gpt-oss.json. The weights are drawn on the GPU.
# Predicted: 410 s without serve.
set -euo pipefail
LIMIT=${LIMIT:-500}
ONLY=${ONLY:-checks gate megakernel_checks megakernel megakernel_batch}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

pytest=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=3)

step checks 110 "${pytest[@]}" tests/kernels/runners/test_gpu_experts.py tests/kernels/server/test_gpu_backends.py \
    -k "gpt-oss"
step gate 100 bash -c '"$PYTHON" -m kernels check attention --variant flash_triton --jobs 12 &&
    "$PYTHON" -m kernels check attention --variant decode_split --jobs 12 &&
    "$PYTHON" -m kernels check step_attention --variant step_hopper --jobs 12'
step megakernel_checks 240 "${pytest[@]}" tests/kernels/megakernel/test_gpu_weights.py \
    tests/kernels/megakernel/test_gpu_experts.py tests/kernels/server/test_gpu_backends.py \
    -k "mxfp4 or gpt_oss or sinks or few"
megakernel=("$PYTHON" -m kernels bench decode --model gpt-oss-20b --prompt 128 --runner megakernel_mxfp4 \
    --runner megakernel --runner kernels_mxfp4 --seconds 2)
step megakernel 150 "${megakernel[@]}" --batch 1 --json "$OUT/decode-gpt-oss.json"
step megakernel_batch 200 "${megakernel[@]}" --batch 8 --json "$OUT/decode-gpt-oss-8.json"
step serve 170 "$PYTHON" -m kernels bench serve --model gpt-oss-20b --users 1 --users 8 --users 32 "${beside[@]}" \
    --json "$OUT/serve-gpt-oss.json"
finish
