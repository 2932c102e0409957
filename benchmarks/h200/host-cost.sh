#!/usr/bin/env bash
# Host time of one call of each variant.
#
# Writes host-cost.json after each case of each of 4 rounds. Predicted: 35 s; 22 cases took 31 s, their kernels compiled
# ahead.
set -euo pipefail
LIMIT=${LIMIT:-120}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step host 90 "$PYTHON" -m benchmarks.host_cost --json "$OUT/host-cost.json"
finish
