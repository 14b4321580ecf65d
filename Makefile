# make demo   environment, and music by the models that come along, with sound and pictures
# make test   environment and the tests, but for the slow ones; the last lines say what was skipped, and why
# make slow   the tests that take more than five seconds each
# make samples the music and piano rolls of the README: the first of seed 0, none chosen
# make check  all tests, lint, types, layers; CI runs these and make journeys: .ci/run
# make wheels wheels for four platforms with the C++ libraries prebuilt, tried as far as can be here
# make docs   the site of docs/ as build/site/index.html
# make journeys  drives the studio's page in the Chromium, the Firefox and the WebKit that are installed, as docs/studio.md says
# Any Python from 3.11 to 3.13: make PYTHON=/path/to/python3.12 demo

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
BROWSER := $(VENV)/.browser
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal
ZIG := $(VENV)/.zig

MISSING := musictx needs Python 3.11, 3.12 or 3.13: install one, or name it with make PYTHON=...

.PHONY: demo samples test slow docs journeys wheels check lint types layers format clean help

help:
	@sed -n 's/^# //p' Makefile

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "$(MISSING)" >&2; exit 2; }
	@echo "== making the environment in $(VENV) (once; torch is a big download)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --progress-bar on torch
	@echo "== installing the rest"
	$(PIP) --quiet -e ".[test]"
	@touch $@ $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "$(MISSING)" >&2; exit 2; }
	@echo "== making the environment in $(VENV) (once; torch is a big download)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --progress-bar on torch
	@echo "== installing the rest"
	$(PIP) --quiet -e .
	@touch $@

demo: $(INSTALLED)
	$(BIN)/musictx harmonise ode_to_joy render=true out=demo/harmonised.mid
	$(BIN)/musictx generate mozart_k545 model=piano seconds=15 render=true out=demo/sonata.mid
	@echo "Listen to demo/*.wav, look at demo/*.png, open demo/*.mid in any music program. Next:"
	@echo "  $(BIN)/musictx harmonise YOUR_MELODY.mid"
	@echo "  $(BIN)/musictx train FOLDER_OF_MIDI"

SHOW := device=cpu seed=0 render=true out=docs/samples
samples: $(INSTALLED)
	rm -f docs/samples/*.mid
	$(BIN)/musictx generate model=piano seconds=30 samples=2 $(SHOW)/piano.mid
	$(BIN)/musictx generate mozart_k545 model=piano seconds=30 $(SHOW)/piano-continued.mid
	$(BIN)/musictx harmonise ode_to_joy $(SHOW)/harmonised.mid
	$(BIN)/musictx generate model=song seconds=30 $(SHOW)/song.mid
	$(BIN)/musictx accompany ode_to_joy model=song $(SHOW)/accompanied.mid seed=1
	rm docs/samples/*.wav
	mv docs/samples/*.png docs/images/

# A process for each core, at most four: each holds torch, about 1 GB.
test: $(READY)
	$(PYTEST) -m "not slow"
	@echo "== make slow runs the slow tests"

slow: $(READY)
	$(PYTEST) -m slow

$(BROWSER): $(READY)
	$(PIP) --quiet -e ".[browser]"
	@touch $@

journeys: $(BROWSER)
	$(BIN)/python -m pytest tests/browser

docs: $(INSTALLED)
	$(PIP) --quiet -e ".[site]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

$(ZIG): $(INSTALLED)
	$(PIP) --quiet -e ".[wheels]"
	@touch $@

wheels: $(ZIG)
	$(BIN)/python -m scripts.wheels out=dist

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell *.md docs musictx scripts

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

check: test slow lint types layers

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
