#!/usr/bin/env bash
# A token of the panel's Llama of nine layers by the megakernel: as it is, with a vocabulary of whole tiles, with four
# query heads a key head, and with the columns of its narrow products divided over the SMs that they leave idle.
#
# Writes three JSON files. Predicted: 120 s, in which six layouts are compiled; a token as it is 0.133 ms. A request of 64
# tokens took 10.49 ms, 0.16 ms a token.
set -euo pipefail
LIMIT=${LIMIT:-180}
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

model=benchmarks/panel_models/llama-9-layers
changed() { # NAME SED: the model's configuration, changed
    if [[ -n $DRY_RUN ]]; then return; fi
    mkdir -p "$scratch/$1"
    sed "$2" "$model/config.json" > "$scratch/$1/config.json"
}
changed tiles 's/"vocab_size": 50021/"vocab_size": 50048/'
changed heads 's/"vocab_size": 50021/"vocab_size": 50048/; s/"num_attention_heads": 20/"num_attention_heads": 16/'
step as-it-is 80 "$PYTHON" -m benchmarks.layouts "$model" --layout '{}' --layout '{"down_parts": 2}' \
    --layout '{"out_parts": 2, "down_parts": 2}' --layout '{"heads": 5}' --json "$OUT/as-it-is.json"
step tiles 40 "$PYTHON" -m benchmarks.layouts "$scratch/tiles" --layout '{}' --json "$OUT/tiles.json"
step heads 40 "$PYTHON" -m benchmarks.layouts "$scratch/heads" --layout '{}' --json "$OUT/heads.json"
finish
