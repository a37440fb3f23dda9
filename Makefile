# `make demo` and `make test` do all the set-up, and work a second time; CONTRIBUTING.md has the others.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Any torch that pyproject.toml allows will do; the pin makes set-up quick where that build is at hand.
TORCH ?= torch==2.13.0
DEMO_HOME ?= $(CURDIR)/.demo
WORKERS ?= 2

# Without --no-compile pip compiles every module of every package, most of which are never imported. Python compiles a
# module when it is first imported, and keeps it unless this variable is set: then every process would compile it again.
PIP_OPTIONS := --quiet --disable-pip-version-check --no-compile
INSTALL = $(BIN)/pip install $(PIP_OPTIONS) "$(TORCH)"
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test fast notebook docs soak lint format clean

demo: $(VENV)/.ready
	@PATH="$(CURDIR)/$(BIN):$$PATH" GRAPHPREP_HOME="$(DEMO_HOME)" $(BIN)/python -m benchmarks.demo

test: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations 40
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests/trainer/kernels

# The tests that are not marked slow, in some four minutes on two cores once kernels are compiled.
fast: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow and not soak"

# Runs the notebooks from a clean kernel; the executed copies lie in artefacts/.
notebook: $(VENV)/.ready-test
	@GRAPHPREP_HOME="$(DEMO_HOME)" $(BIN)/python -m notebooks.run artefacts

# The documentation site, in site/; a warning is an error. Nothing is loaded from the network.
docs: $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

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

# The pip that comes with Python 3.11 takes twice as long.
$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install $(PIP_OPTIONS) --upgrade pip || echo "pip cannot be upgraded; installation takes longer" >&2
	@touch $@

$(VENV)/.ready: $(VENV)/.python pyproject.toml
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.ready-test: $(VENV)/.python pyproject.toml
	$(INSTALL) --editable ".[lint,test]"
	@touch $(VENV)/.ready $@

$(VENV)/.ready-docs: $(VENV)/.python pyproject.toml
	$(INSTALL) --editable ".[docs]"
	@touch $(VENV)/.ready $@

# All that .ci/run needs, in one go, since each call of pip looks up everything again.
$(VENV)/.ready-all: $(VENV)/.python pyproject.toml
	$(INSTALL) --editable ".[docs,kaminpar,lint,mtkahypar,test,triton]" || { \
	    echo "not all could be installed; trying without Mt-KaHyPar and KaMinPar, whose tests are then skipped" >&2; \
	    $(INSTALL) --editable ".[docs,lint,test,triton]"; }
	@touch $(VENV)/.ready $(VENV)/.ready-test $(VENV)/.ready-docs $@

clean:
	rm -rf .demo site .pytest_cache .mypy_cache .ruff_cache
