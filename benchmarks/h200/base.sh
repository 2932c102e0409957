#!/usr/bin/env bash
# Packs the kernels of another commit, for host-cost.sh.
#
#   bash benchmarks/h200/base.sh COMMIT [OUTPUT]     default: .carry/base.tar.xz
#
# Predicted: 3 s, about 0.4 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

output=${2:-.carry/base.tar.xz}
mkdir -p "$(dirname "$output")"
git archive --add-virtual-file="COMMIT:$(git rev-parse --short "$1")" "$1" kernels | xz > "$output"
echo "kernels of $(git rev-parse --short "$1"), $(stat -c %s "$output") bytes: $output"
