#!/usr/bin/env bash
# Llama-3.1-70B's shape served over four GPUs of one host through HTTP, one user and 32, in bf16 and int8, beside vLLM
# over as many where VLLM names a folder with it (use-vllm.sh).
#
#   WHERE    the folder for the weights, 141 GB (default /dev/shm, where memory holds them; else a disk)
#
# The weights are made on the four GPUs and written once, one process a GPU; both servers read the same files. Each row
# is in serve-70b.json as soon as it is measured, this server's first; judging all of them comes last.
#
# Predicted: 480 s. Of them 10 for ceilings, 60 to make and write the weights, 110 for the server in bf16 (90 until it
# is ready, of 72 that the 8B took on two and 141 GB at 4 GB/s more; 3 for one user, 15 for 32), 100 in int8, 150 for
# vLLM (as the 8B on two, and the weights), 50 to judge. By `workers.prediction` one user gets a token in 8.4 ms in bf16
# and 5.0 in int8; the megakernel took 8.86 in bf16 outside a server (results/h200x4/decode-70b.json).
set -euo pipefail
LIMIT=${LIMIT:-585}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

# NVLink multicast stays off: a program that ends badly with it can leave a host's GPUs unusable.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 VLLM_ALLREDUCE_USE_SYMM_MEM=0

beside=()
if [[ -n $VLLM_PYTHON ]]; then beside=(--vllm "$VLLM_PYTHON"); fi
export TMPDIR=${WHERE:-/dev/shm}
step serve 575 "$PYTHON" -m kernels bench serve --model llama-3.1-70b --tensor-parallel-size 4 --users 1 --users 32 \
    --weights bf16 --weights int8 "${beside[@]}" --json "$OUT/serve-70b.json" --append
finish
