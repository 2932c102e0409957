#!/usr/bin/env bash
# What four GPUs of one host are measured for, in the order of its worth, one call of a machine for each PART:
#
#   PART=8b     Llama-3.1-8B over four through HTTP, one user and 32, in bf16 and int8 (serve-gpus.sh)
#   PART=70b    Llama-3.1-70B's shape over four likewise, beside vLLM where VLLM is set. Its weights, 141 GB, are written
#               once into the folder WHERE (default /dev/shm, where memory holds them), and both servers read them
#   PART=run    the workbench's run of Llama-3.1-70B's shape (gpus-larger.sh with ONLY=large)
#
# Without PART all of them, as far as LIMIT (default 585) allows; each leaves in OUT what it measured until then.
# Predicted: 400 s for 8b (160 of them vLLM), 480 for 70b (60 to write the weights, 110 for bf16, 100 for int8, 150 for
# vLLM, 50 to judge; by `workers.prediction` a token takes 8.4 ms in bf16 and 5.0 in int8), 430 for run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LIMIT=${LIMIT:-585}
OUT=${OUT:-build/h200/four}
status=0
part() {
    local name=$1 most=$2
    shift 2
    if [[ -n ${PART:-} && $PART != "$name" ]]; then return; fi
    if ((most > LIMIT - SECONDS)); then most=$((LIMIT - SECONDS)); fi
    if ((most < 60)); then
        echo "four: $name left out, ${most} s are left"
        status=1
        return
    fi
    env GPUS=4 OUT="$OUT" LIMIT="$most" "$@" || status=1
}
part 8b 460 ONLY=serve bash "$here/serve-gpus.sh" llama-3.1-8b --users 1 --users 32 --weights bf16 --weights int8
part 70b 585 ONLY=serve TMPDIR="${WHERE:-/dev/shm}" bash "$here/serve-gpus.sh" llama-3.1-70b --users 1 --users 32 \
    --weights bf16 --weights int8
part run 585 ONLY=large bash "$here/gpus-larger.sh"
exit "$status"
