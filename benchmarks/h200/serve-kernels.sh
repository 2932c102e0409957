#!/usr/bin/env bash
# Where a step of the server goes, kernel by kernel: 32 users of Qwen2.5-1.5B and of Llama-3.2-1B, alone, beside one
# prompt of 128 tokens, beside 2,016 tokens of prompts, and 2,048 tokens of prompts without anybody. Then 1 and 16 users
# alone, whose passes are also timed with the LM heads in the place of logits and a draw (`heads_ms`).
#
# Writes serve-kernels-qwen2.5-1.5b.json and serve-kernels-llama-3.2-1b.json. Predicted: 60 s, 31 of them for Qwen: 12 s of
# imports, 3 of weights, 11 of captures, 4 of steps.
set -euo pipefail
LIMIT=${LIMIT:-100}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for model in qwen2.5-1.5b llama-3.2-1b; do
    step "$model" 60 "$PYTHON" -m benchmarks.serve_kernels --model "$model" --steps 32+0 32+128 32+2016 0+2048 1+0 16+0 \
        --json "$OUT/serve-kernels-$model.json"
done
finish
