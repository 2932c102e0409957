#!/usr/bin/env bash
# Whole models in int8, fp8 and NVFP4, the last one rounded by GPTQ, with their fidelity beside bf16's, and with the gaps of the ids that
# they serve by their own logits ("own ids" in each line). A row whose ids contradict its own logits fails.
#
# Writes decode-lossy.json. Predicted: 290 s, 145 s a model: weights drawn, 20 s for three runs of GPTQ over 2.5 GB of
# weights, three builds of 10 s, 4,096 tokens by the float32 model, 30 rounds of 21 to 47 ms each, and 16 requests of
# each runner, each followed by 192 steps.
set -euo pipefail
LIMIT=${LIMIT:-380}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step decode 370 "$PYTHON" -m kernels bench decode --model llama-3.2-1b --model qwen2.5-1.5b --batch 1 --prompt 128 \
    --runner megakernel --runner megakernel_int8 --runner megakernel_fp8 --runner megakernel_nvfp4 --runner kernels_fp8 \
    --fidelity 4096 --seconds 15 --json "$OUT/decode-lossy.json"
finish
