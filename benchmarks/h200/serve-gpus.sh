#!/usr/bin/env bash
# The server over the GPUS (2 or 4, default 2) first GPUs of one host through HTTP, beside vLLM over as many where VLLM
# names a folder with it (use-vllm.sh), after the test of its passes and its megakernel on two GPUs.
#
#   GPUS=2 bash benchmarks/h200/serve-gpus.sh [MODEL [OPTION...]]       default: llama-3.1-8b with 1 and 32 users
#
# Writes serve.json. Predicted: 400 s: the tests take more than 80, our server took 125 and vLLM 150 to 190.
# ONLY="cold warm" starts our server twice, with empty caches and with filled ones: predicted 50 and 36 s for Llama-3.1-8B
# on two GPUs, where a start took 72.
set -euo pipefail
LIMIT=${LIMIT:-480}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

options=("${@:2}")
if ((${#options[@]} == 0)); then options=(--users 1 --users 32); fi

step tests 120 "$PYTHON" -m pytest -m gpu -q -p no:cacheprovider tests/kernels/server/test_gpu_backends.py \
    -k test_both_backends
step serve 575 "$PYTHON" -m kernels bench serve --model "${1:-llama-3.1-8b}" --tensor-parallel-size "${GPUS:-2}" "${beside[@]}" \
    --json "$OUT/serve.json" --append "${options[@]}"
if [[ ${ONLY:-} == *cold* ]]; then starts 120 --model "${1:-llama-3.1-8b}" --tensor-parallel-size "${GPUS:-2}"; fi
finish
