#!/usr/bin/env bash
# Compiles the CUDA kernels that the scripts here ask for, proves the programs of their megakernels, and packs both for a
# GPU machine.
#
#   bash benchmarks/h200/caches.sh [OUTPUT]      default: .carry/kernels-cache.tar.xz, which use-site.sh unpacks there
#
# Needs no GPU. JOBS says how many processes compile (default: one a core). What FOLDER (default build/prebuilt) has is
# not made again, so it may be stopped and repeated; remove that folder to be rid of the binaries of other commits.
# Predicted: twelve minutes of two Xeon cores and 2.5 MB: the 888 binaries of commit 00a7441 took ten and 2 MB; some 150
# of Llama-3.1-8B and of several GPUs came afterwards, eight of them megakernels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

output=${1:-.carry/kernels-cache.tar.xz}
python=${PYTHON:-$([[ -x .venv/bin/python ]] && echo .venv/bin/python || echo python3)}
folder=${FOLDER:-build/prebuilt}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$(dirname "$output")" "$folder"
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}

made() { "$python" -m kernels compile --into "$folder" --jobs "${JOBS:-$(nproc)}" "$@"; }

# The workbench's runs and `bench decode`; then the servers of `serve`, of a run under load and of `bench serve`.
models=(--model llama-3.2-1b --model qwen2.5-1.5b)
made "${models[@]}" --no-server --batch 1 --batch 8 --prompt 128 --prompt 1024 --weights fp8 --weights nvfp4
made "${models[@]}" --max-num-seqs 64 --max-num-seqs 256 --max-model-len 8192 --max-model-len 768 --max-model-len 192
# gpus.sh divides models over several GPUs.
for each in llama-3.2-1b llama-3.1-8b; do made --model $each --no-server --weights fp8 --tensor-parallel-size 2 --tensor-parallel-size 4; done
made --checks
# The models of the GPU tests; their server has 12 places of 512 tokens.
"$python" - "$scratch" << 'END'
import json, pathlib, sys
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
for name, config in GPU_CONFIGS.items():
    folder = pathlib.Path(sys.argv[1], name)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
END
for each in llama qwen2 qwen3; do made --model "$scratch/$each" --max-num-seqs 12 --max-model-len 512; done

tar -C "$folder" --sort=name --owner=0 --group=0 --mtime=@0 -c . | xz -6 > "$output"
echo "$(find "$folder" -name '*.cubin' | wc -l) binaries, $(stat -c %s "$output") bytes: $output"
