#!/usr/bin/env bash
# The megakernel on two GPUs of one host: its tests, Llama-3.1-8B and Llama-3.2-1B in bf16 and fp8, and torch's peers.
# Both GPUs read the prompts too; a row's ttft_ms and ttf64_ms count that.
#
# Writes decode-two-gpus-8b.json, decode-two-gpus-1b.json and peer-<model>-<sum>.json. Predicted: 280 s for the first
# four steps; what follows gets what is left, or all of it with LIMIT=500. Four tests 40 s; the 8B 125 s: start and
# ceilings 25, weights drawn 5, bf16 45 (its rows are written then), fp8 50, half of it one GPTQ for both runners; its
# peer 40 s (torch.compile); the 1B 75 s. A pass over a prompt has two sums a layer, each a copy of 0.5 MB (1B) or 1 MB
# (8B) both ways, 10 to 20 µs: 0.3 to 0.6 ms of TTFT in the 1B, 0.6 to 1.3 in the 8B.
# By 1.23 GB and 33 exchanges of 1.1 µs a token of the 1B takes 0.28 + 0.04 ms at least on two GPUs, where one has
# 0.56; of the 8B 1.64 ms, where cuBLAS and NCCL under a graph take 2.99.
set -euo pipefail
LIMIT=${LIMIT:-290}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# NVLink multicast stays off: a program that ends badly with it can leave a host's GPUs unusable.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1

decode=("$PYTHON" -m kernels bench decode --gpus 2 --batch 1 --prompt 128 --runner megakernel --runner megakernel_fp8)
peer=("$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 2 -m benchmarks.tensor_parallel)
tests=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=4 --durations=3)
files=(tests/kernels/engine/test_divided.py tests/kernels/megakernel/test_gpu_ranks.py)
first="graph or every or bits"

step first-tests 70 "${tests[@]}" -k "two_gpus or two-gpus and ($first)" "${files[@]}"
step decode-8b 150 "${decode[@]}" --model llama-3.1-8b --seconds 10 --json "$OUT/decode-two-gpus-8b.json"
step peer-8b-symm 60 "${peer[@]}" llama-3.1-8b --sum symm_mem --json "$OUT/peer-llama-3.1-8b-symm_mem.json"
step decode-1b 100 "${decode[@]}" --model llama-3.2-1b --seconds 10 --json "$OUT/decode-two-gpus-1b.json"
step further-tests 120 "${tests[@]}" -k "two-gpus and not ($first)" "${files[@]}"
step peer-1b-symm 50 "${peer[@]}" llama-3.2-1b --sum symm_mem --json "$OUT/peer-llama-3.2-1b-symm_mem.json"
step peer-8b-nccl 60 "${peer[@]}" llama-3.1-8b --sum nccl --json "$OUT/peer-llama-3.1-8b-nccl.json"
step peer-1b-nccl 50 "${peer[@]}" llama-3.2-1b --sum nccl --json "$OUT/peer-llama-3.2-1b-nccl.json"
finish
