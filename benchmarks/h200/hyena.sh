#!/usr/bin/env bash
# A decoder of long convolutions, whose own are torch's transforms, through profile, explore, compose and verify, with
# the library's kernels in their place.
#
# Writes striped-hyena-150m.json. Predicted: 120 s.
set -euo pipefail
LIMIT=${LIMIT:-170}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step stages 160 "$PYTHON" -m benchmarks.stages striped-hyena-150m --sla benchmarks/h200/hyena.yaml \
    --output "$OUT/striped-hyena-150m.json"
finish
