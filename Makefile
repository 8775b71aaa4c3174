# Every target but `clean` first makes .venv with everything in it; after the first time that takes no network.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup run test test-all lint bench demo coverage lock clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "toptail needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "toptail needs Python's venv module; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' \
		|| { echo "The install failed; the first 'make setup' needs the network." >&2; exit 1; }
	@touch $@

run: setup
	$(BIN)/toptail serve

demo: setup
	@echo "make demo: the demonstration is not built yet; 'make run' serves." >&2; exit 1

test: setup
	$(BIN)/python -m pytest -m "not slow"

test-all: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/toptail bench

coverage: setup
	$(BIN)/coverage run -m pytest -m "not slow"
	$(BIN)/coverage report

# Write down what is installed now, so that a fresh install tomorrow gets what was tested today.
lock: setup
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
