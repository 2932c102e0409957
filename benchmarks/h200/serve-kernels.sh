#!/usr/bin/env bash
# Where a step of the server goes, kernel by kernel: 32 users of Qwen2.5-1.5B and of Llama-3.2-1B, alone, beside one
# prompt of 128 tokens, beside 2,016 tokens of prompts, and 2,048 tokens of prompts without anybody. Then 1 and 16 users
# alone, whose passes are also timed with the LM heads in the place of logits and a draw (`heads_ms`).
#
# Writes serve-kernels-qwen2.5-1.5b.json and serve-kernels-llama-3.2-1b.json. Predicted: 60 s, 31 of them for Qwen: 12 s of
# imports, 3 of weights, 11 of captures, 4 of steps. Steps of Qwen are modelled as 1.30 ms (32+0; 1.36 with separate norms,
# `separate_norms` of arrangements_ms), 1.9 (32+128, a pass of 192 rows), 10.3 (32+2016) and 10 (0+2048): both have 2,048
# rows, where 32+2048 was modelled as 11.5. Gate and up should take 450 us of the first, attention 200, QKV 110, the norms
# (one is left) 3. Llama's 32+0 is modelled as 0.89 ms, 0.91 with separate norms. A head with argmax should take 5 us less
# than logits and a draw (2 to 8), one with top-k and top-p 390 us less: the draw then reads each row 19 times, in some 21
# us each by 0.74 ms for 35 readings, and the head takes 12 to 22 us more than with argmax, its norm 2.
set -euo pipefail
LIMIT=${LIMIT:-100}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for model in qwen2.5-1.5b llama-3.2-1b; do
    step "$model" 60 "$PYTHON" -m benchmarks.serve_kernels --model "$model" --steps 32+0 32+128 32+2016 0+2048 1+0 16+0 \
        --json "$OUT/serve-kernels-$model.json"
done
finish
