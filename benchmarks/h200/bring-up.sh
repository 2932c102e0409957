#!/usr/bin/env bash
# What the bring-up finds on an H200 when nothing is known of it.
#
# Writes bring-up.json, bring-up.md and steps.tar.xz, with the GPU's entry. Predicted: 90 s, as it took at ca078c3
# and d4b93d4; at most its own five minutes, and the steps that have begun.
set -euo pipefail
LIMIT=${LIMIT:-420}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step bring-up 390 "$PYTHON" -m kernels bring-up "$scratch/bring-up" --quick --stranger --jobs 8
step results 10 cp "$scratch/bring-up/bring-up.json" "$scratch/bring-up/bring-up.md" "$OUT"
keep steps "$scratch/bring-up"
finish
