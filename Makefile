# make demo | up | test | chaos | lint | format | size | wheel | client | clients | screenshots | setup | clean | distclean
#
# setup installs once; a stamp inside the virtual environment lets every later call skip it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8000
FILES ?= 4
JOBS ?= 2
CATALOGUE := $(notdir $(basename $(wildcard kernels/model_files/catalogue/*.json)))
WHEEL_MODELS ?= $(filter-out tiny-% striped-hyena-%,$(CATALOGUE))
FLAVOUR ?= $(shell if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then echo gpu; else echo cpu; fi)
PINS := constraints/$(FLAVOUR).txt constraints/clients.txt
STAMP := $(VENV)/.installed-$(FLAVOUR)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo up test chaos lint style types format size wheel client clients screenshots pin-images pin-hashes migrate train-sample clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## virtual environment with the pinned packages (constraints/cpu.txt or gpu.txt)

$(STAMP): $(PINS) pyproject.toml scripts/setup.sh
	@scripts/setup.sh "$(VENV)" "$(FLAVOUR)"
	@touch $@

demo: setup  ## submit samples/voice-agent, print the verdict, leave demo/report.html and demo/plan.json
	@$(BIN)/python -m samples.demo

up: setup  ## serve on http://127.0.0.1:8000 with workers until Ctrl-C; PORT=… for another port
	@exec $(BIN)/workbench up --port $(PORT)

test: setup  ## pytest, four files at a time (FILES=8 for another number)
	@$(BIN)/pytest -n $(FILES) --dist loadfile --no-loadscope-reorder $(ARGS)

chaos: setup  ## 50 runs while processes are killed and disks fill up (about fifteen minutes; as root); ARGS="--runs 5"
	@$(BIN)/python -m tests.chaos $(ARGS)

lint: style types  ## ruff, types, import rules

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

size:  ## lines of Python by package, words of README and docs
	@for room in kernels workers workbench tests benchmarks; do git ls-files "$$room/*.py" | xargs cat | wc -l | xargs echo "$$room"; done
	@git ls-files '*.py' | xargs cat | wc -l | xargs echo "lines of Python"
	@find docs README.md -name '*.md' | xargs cat | wc -w | xargs echo "words"

format: setup  ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: setup  ## dist/*.whl with the kernels of WHEEL_MODELS, by default of the catalogue; JOBS=8 compile at once
	$(BIN)/python -m kernels compile --into kernels/prebuilt --plans-only --jobs $(JOBS) $(WHEEL_MODELS:%=--model %)
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

client: setup  ## clients/openapi.json from the REST API, and the Python client from that
	@$(BIN)/python -m scripts.make_client

clients: setup  ## public clients against `kernels serve` (ten minutes; installs them in /tmp); ARGS="litellm" for some
	@$(BIN)/python -m benchmarks.clients $(ARGS)

screenshots: setup  ## the images of the README, of a site started for it; ARGS="--tour FOLDER" for every page
	@$(BIN)/python -m tests.browser.screenshots $(ARGS)

pin-images:  ## pin the images of Dockerfile and docker-compose.yml to what their tags mean today
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,python3) scripts/pin_images.py

pin-hashes: setup  ## write the hashes of what the images install; needs uv on the PATH
	@$(BIN)/python scripts/pin_hashes.py

train-sample: setup  ## train samples/voice-agent again (ten minutes on one core)
	$(BIN)/python samples/train.py

clean:  ## remove what runs and tests left behind
	rm -rf demo build dist kernels/prebuilt staticfiles .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## also remove the virtual environment and the local data in var/
	rm -rf $(VENV) var
