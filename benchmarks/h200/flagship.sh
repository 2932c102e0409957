#!/usr/bin/env bash
# The workbench's own run of Llama-3.2-1B: TTF64 within 100 ms, with vLLM as a peer where VLLM names a folder with it.
#
#   MINUTES=8.5     of the workload; 15 leave room for max-autotune (160 s to build) as well
#   EXCLUDE=        variants that are not tried, divided by commas: compiled,compiled_tuned leave their time to others
#
# Writes run.json, plan.json, report.html, result.html, timeline-before.json and timeline-after.json. Predicted: 490 s
# at 8.5 minutes, as it took with vLLM at 40d2d05: the run ended a minute before its minutes were up.
set -euo pipefail
MINUTES=${MINUTES:-8.5}
LIMIT=${LIMIT:-590}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$here/use-vllm.sh"

excluded=()
for name in ${EXCLUDE:+${EXCLUDE//,/ }}; do excluded+=(--exclude "$name"); done
site_run workbench_run llama-3.2-1b --sla benchmarks/h200/flagship.yaml --minutes "$MINUTES" "${excluded[@]}" --rerun
keep logs "$scratch/data/log"
finish
