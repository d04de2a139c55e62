# make bench: install into .venv and run the softmax sweep.   make test: everything CI runs.
# make quick: lint, types and the tests that take less than a second each, in about a minute.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
# pip compiles nothing: the tests import a tenth of what is installed.
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile -c $(CONSTRAINTS)

# Tests start Python dozens of times: it may keep what it compiles, whatever the environment says. With threads of torch's own,
# several test processes on two cores get into each other's way.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: bench install test quick checks lint typecheck promises pytest clean

install: $(VENV)/.installed

bench: install
	$(BIN)/kbench run configs/softmax.yaml

test: checks pytest

# mypy needs one core for as long as the first import needs another one.
checks: $(VENV)/.installed-test
	$(MAKE) --jobs 2 lint typecheck $(VENV)/.imported

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.installed-test
	$(BIN)/mypy

# What a user sees, tested from outside: a part of the tests, which needs nothing of the others.
promises: $(VENV)/.installed-test
	$(PYTEST) tests/promises --confcutdir tests/promises --numprocesses 3 --dist worksteal

# Three processes keep two cores busy: many tests wait for a time limit or for another process. The promises come first, since
# they take longest; the short tests after them end all processes at about the same time.
pytest: $(VENV)/.installed-test
	$(PYTEST) --numprocesses 3 --dist loadfile --no-loadscope-reorder

quick: checks
	$(PYTEST) --ignore tests/promises --numprocesses 2 --dist worksteal -m "not slow"

# The stamps make a second call install nothing again. The pip of Python 3.11 takes 5 s longer to choose wheels than a new one.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.installed

# Collecting the tests imports all that they use. Once after the installation, so that not every test process compiles it.
# What is wrong with a test, the test run reports.
$(VENV)/.imported: $(VENV)/.installed-test
	@$(PYTEST) --collect-only --quiet >/dev/null 2>&1 || true
	@touch $@

clean:
	rm -rf $(VENV) build dist
