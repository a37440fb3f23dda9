# Two commands do all the set-up: `make demo` and `make test`. Both work a second time.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Any torch that pyproject.toml allows will do; the pin makes set-up quick where that build is at hand.
TORCH ?= torch==2.13.0
DEMO_HOME ?= $(CURDIR)/.demo
WORKERS ?= 2

.PHONY: demo test notebook soak lint format clean

demo: $(VENV)/.ready
	@PATH="$(CURDIR)/$(BIN):$$PATH" GRAPHPREP_HOME="$(DEMO_HOME)" $(BIN)/python -m benchmarks.demo

test: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Runs the notebooks from a clean kernel; the executed copies lie in artefacts/.
notebook: $(VENV)/.ready-test
	@GRAPHPREP_HOME="$(DEMO_HOME)" $(BIN)/python -m notebooks.run artefacts

# The long fault and fuzz counts; a seeded tenth of them is in `make test`.
soak: $(VENV)/.ready-test
	GRAPHPREP_SOAK=1 $(BIN)/python -m pytest -m soak

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

format: $(VENV)/.ready-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.ready: $(VENV)/.python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	@touch $@

clean:
	rm -rf .demo .pytest_cache .mypy_cache .ruff_cache
