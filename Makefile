# make demo   environment, and music by the models that come along, with sound and pictures
# make test   environment and the whole test suite
# make check  what CI runs: tests, lint, types, layers
# Any Python from 3.11 to 3.13: make PYTHON=/path/to/python3.12 demo

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

MISSING := musictx needs Python 3.11, 3.12 or 3.13: install one, or name it with make PYTHON=...

.PHONY: demo test check lint types layers format clean help

help:
	@sed -n 's/^# //p' Makefile

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "$(MISSING)" >&2; exit 2; }
	@echo "== making the environment in $(VENV) (once; torch is a big download)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	@touch $@ $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "$(MISSING)" >&2; exit 2; }
	@echo "== making the environment in $(VENV) (once; torch is a big download)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python scripts/demo.py

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

check: test lint types layers

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
