# Each target builds what it needs; nothing but Python 3.11+ and make is expected.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax

.PHONY: demo test check format docs bench clean

demo: $(VENV)/.lab ## TPO beside the policy-gradient methods on a sparse-reward task
	$(BIN)/tpo demo

test: $(VENV)/.dev ## every test
	$(BIN)/python -m pytest

check: $(VENV)/.dev ## lint, format, types, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) docs

format: $(VENV)/.dev ## what `check` would complain about and a machine can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## a page per objective, in docs/_build/html
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html

bench: $(VENV)/.dev ## speed on this machine, as ratios measured in one run
	$(BIN)/tpo bench

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("tpo needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[lab]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.lab

clean:
	rm -rf $(VENV) .cache docs/_build docs/objectives
