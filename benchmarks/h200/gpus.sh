#!/usr/bin/env bash
# The megakernel on the GPUS (2 or 4, default 2) first GPUs of one host: its tests, Llama-3.1-8B and Llama-3.2-1B in
# bf16 and fp8 beside one GPU, a timeline over all GPUs, and the peers: torch, and vLLM where VLLM names it
# (use-vllm.sh). All GPUs read the prompt too; a row's ttft_ms and ttf64_ms count that.
#
# Writes decode-8b.json, decode-1b.json, timeline-llama-3.2-1b.json.gz, peer-<model>-<sum>.json and serve-vllm.json.
# Predicted: 560 s for the first six steps and some of the others. Measured on four H100s: start 22 s, seven tests 59, the
# 8B on one, two and four GPUs 201, the 1B 71, each peer 30; on two H200s: the first tests 34, the 8B 164, the 1B 58, a
# peer 24, the sanitizer 17, vLLM 169.
set -euo pipefail
LIMIT=${LIMIT:-560}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

gpus=${GPUS:-2}
megakernel=tests/kernels/megakernel
case $gpus in
2) places="two-gpus or two_gpus" ;;
4) places="four-gpus" ;;
*) echo "gpus: GPUS is $gpus; 2 and 4 are measured" >&2; exit 2 ;;
esac
decode=("$PYTHON" -m kernels bench decode --tensor-parallel-size 2 --batch 1 --prompt 128 --seconds 10
    --runner megakernel --runner megakernel_fp8)
if ((gpus == 4)); then decode+=(--tensor-parallel-size 4); fi
peer=("$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$gpus" -m benchmarks.tensor_parallel)
tests=("$PYTHON" -m pytest -m gpu -q -p no:cacheprovider --maxfail=4 --durations=3)
files=(tests/kernels/runners/test_all_reduce.py tests/kernels/runners/test_sharded.py)
files+=($megakernel/test_gpu_ranks.py $megakernel/test_gpu_fidelity.py)
first="graph or generation or bits or answer or sum"

step first-tests 80 "${tests[@]}" -k "($places) and ($first)" "${files[@]}"
step decode-8b 260 "${decode[@]}" --model llama-3.1-8b --fidelity 1024 --json "$OUT/decode-8b.json"
step decode-1b 120 "${decode[@]}" --model llama-3.2-1b --fidelity 4096 --json "$OUT/decode-1b.json"
# torchrun's processes have sessions of their own. It ends them 30 s after an interrupt at the latest.
KILL_AFTER=40
step peer-8b-symm 60 "${peer[@]}" llama-3.1-8b --sum symm_mem --json "$OUT/peer-llama-3.1-8b-symm_mem.json"
step peer-8b-nccl 60 "${peer[@]}" llama-3.1-8b --sum nccl --json "$OUT/peer-llama-3.1-8b-nccl.json"
KILL_AFTER=20
step record 60 "$PYTHON" -m kernels megakernel record llama-3.2-1b --tensor-parallel-size "$gpus" -o "$scratch/timeline.npz"
step timeline 30 "$PYTHON" -m kernels megakernel trace "$scratch/timeline.npz" \
    -o "$OUT/timeline-llama-3.2-1b.json.gz"
step further-tests 150 "${tests[@]}" -k "($places) and not ($first)" "${files[@]}"
step sanitizer 90 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --kernel-name kns=decode --tool memcheck \
    --error-exitcode 9 "$PYTHON" -m tests.kernels.megakernel.small_launch llama 1 bf16 ranks
if [[ -n $VLLM_PYTHON ]]; then
    step vllm 280 "$PYTHON" -m kernels bench serve --model llama-3.1-8b --vllm "$VLLM_PYTHON" --users 1 \
        "--vllm-option=--tensor-parallel-size=$gpus" --json "$OUT/serve-vllm.json"
fi
finish
