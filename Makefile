# make bench: install into .venv and run the softmax sweep.   make test: everything CI runs.
# make quick: lint, types and the tests that take less than a second each, in under two minutes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip compiles nothing: the tests import a tenth of what is installed.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.PHONY: bench install test quick lint typecheck pytest clean

install: $(VENV)/.installed

bench: install
	$(BIN)/kbench run configs/softmax.yaml

test: lint typecheck pytest

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.installed-test
	$(BIN)/mypy

# The tests start Python dozens of times: it may keep what it compiles, whatever the environment says. With threads of
# torch's own, several test processes on two cores get into each other's way. Three processes keep two cores busy: many tests
# wait for a time limit or for another process.
pytest: $(VENV)/.installed-test
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist worksteal

quick: lint typecheck
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not slow"

# The stamps make a second call install nothing again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist
