#!/usr/bin/env bash
# Whole runs of many models on one site and one GPU, an H100 or an H200, and the regret of each chosen plan.
#
#   MODELS=         names of the panel or the catalogue, divided by spaces; default: all of the panel, and the trained
#                   one where its folder is known
#   MINUTES=3       of each workload; "3 6" runs all models with 3 minutes, then all with 6
#   AGAIN=1         submits each workload twice
#   TRAINED=        folder of the trained SmolLM2-135M-Instruct
#   PARTS=          or the folder that `python -m benchmarks.trained_model FOLDER --pack PARTS` wrote elsewhere; it is
#                   unpacked beside other models' runs, also where some parts come in a later call
#   GPUS=1          so many GPUs measure at once, one run each
#   LONGEST=240     seconds; a run that takes longer is cancelled, and the next model follows
#   LIMIT=590       seconds; the runs that they end are cancelled, and panel.json keeps those before
#
# Writes panel.json, in which device and rows name the card, after each run. Predicted: 590 s, which six models take;
# all twelve take 1,150 s: 45 until the site runs, 70 for each model of up to 2 billion parameters, 100 of up to 8, 150
# for a mixture. They take `GPUS=2`, or `DETACHED=1 LIMIT=1500` and then COLLECT=1 until the panel is over.
set -euo pipefail
MINUTES=${MINUTES:-3}
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parts=()
if [[ -n ${PARTS:-} ]]; then
    TRAINED=$scratch/smollm2
    if [[ ! -f $TRAINED/tokenizer.json ]]; then parts=(--parts "$PARTS"); fi
fi
models=()
if [[ -n ${MODELS:-} ]]; then models=(--models $MODELS); fi
site_run panel "${models[@]}" --minutes $MINUTES ${AGAIN:+--again} ${TRAINED:+--trained "$TRAINED"} "${parts[@]}" \
    --gpus "${GPUS:-1}" --longest "${LONGEST:-240}" --seconds $((LIMIT - SECONDS - 40))
keep logs "$scratch/data/log"
finish
