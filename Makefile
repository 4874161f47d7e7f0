# What a newcomer and a build machine do here. Needs make, bash and Python 3.11 or newer; all else comes with `setup`.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup test check lock docs shots demo lab-setup lab lab-healthy lab-short lab-rescore lab-bites lab-preflight bench-start bench-agent bench-jitter bench-judge bench-screen bench-recording bench-days bench-connect fuzz kill-check html-check clean

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

help: ## Print the verbs.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(READY) ## Put all that the other verbs need into .venv, as the lock file says.

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gpuwatch needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv \
	  || { echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test: check ## Check everything: style, types, walls, documents, tests (under 5 minutes).
	@tests/install-debian.sh
	$(BIN)/python -m pytest

check: $(READY) ## Check style, types, walls and generated documents only.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --violations --eval-annotations --no-parse-comments --target=3.6- src/gpuwatch/agent src/gpuwatch/errand
	$(BIN)/python docs/generate.py --check

lock: ## Write requirements.lock anew from pyproject.toml; needs uv.
	uv pip compile --quiet --universal --generate-hashes --no-header \
	  --extra html --group dev -p 3.11 pyproject.toml -o requirements.lock

docs: $(READY) ## Write the generated documents anew.
	$(BIN)/python docs/generate.py

shots: $(READY) ## Take the README's pictures anew from a recorded fault; half a minute.
	TZ=UTC $(BIN)/python docs/shots.py recordings/net-loss docs/img

lab-setup: ## Install the Debian packages that the lab of real kernels needs; root.
	tests/install-debian.sh tests/lab/debian-packages.txt

lab: $(READY) lab-setup ## Break real clusters in every way, score the verdicts; root; 45 minutes (SCENARIO=net-loss: two).
	$(BIN)/python tests/lab/run.py $(SCENARIO)

lab-healthy: $(READY) lab-setup ## Score 20 healthy minutes, and 20 of jobs that are healthy but odd; root.
	$(BIN)/python tests/lab/run.py --set healthy

lab-short: $(READY) lab-setup ## Score three faults, fail where one is judged wholly wrong; root; under 8 minutes.
	rm -rf build/lab-short
	$(BIN)/python tests/lab/run.py --set short --strict --out build/lab-short

lab-rescore: $(READY) ## Judge the recordings of `make lab` anew with the code as it is, and score them; nothing is run.
	$(BIN)/python tests/lab/rescore.py $(SCENARIO)

demo: $(READY) ## Play a recorded fault in the screen: no GPU and no SSH needed.
	$(BIN)/gpuwatch demo

lab-bites: $(READY) lab-setup ## Show that each fault of the lab bites and can be lifted; root; five minutes.
	$(BIN)/python tests/lab/bites.py

lab-preflight: $(READY) lab-setup ## Plant faults of links, switches and disks, and have preflight find them; root; ten minutes.
	$(BIN)/python tests/lab/preflight.py

bench-start: $(READY) ## Measure how soon --help and the first screen appear.
	$(BIN)/python bench/start.py

bench-agent: $(READY) ## Measure what the agent costs a node, beside other monitors; root; a quarter of an hour.
	@test -x build/bench-tools/bin/glances || { $(PYTHON) -m venv build/bench-tools \
	  && build/bench-tools/bin/pip install --quiet --disable-pip-version-check nvitop==1.7.2 glances==4.5.8; }
	@command -v prometheus-node-exporter >/dev/null || apt-get install -qq -y prometheus-node-exporter >/dev/null || true
	$(BIN)/python bench/agent.py

bench-jitter: $(READY) ## Measure how late the agent's ticks are, on an idle node and beside spinners; two minutes.
	$(BIN)/python bench/jitter.py

bench-judge: $(READY) ## Measure what a tick of judging costs the viewer, of 64 and of 1,000 nodes; some minutes.
	$(BIN)/python bench/judge.py

bench-connect: $(READY) ## Measure what it takes to reach 200 nodes and to keep them streaming; half a minute.
	$(BIN)/python bench/connect.py

bench-recording: $(READY) ## Measure how large a recording is, and what writing it costs, beside atop; two minutes.
	@command -v atop >/dev/null || { apt-get install -qq -y --no-install-recommends atop >/dev/null || true; }
	$(BIN)/python bench/recording.py

fuzz: $(READY) ## Feed thousands of inputs to what reads a node's bytes: its shell's noise, greetings, frames; minutes.
	$(BIN)/python -m pytest --hypothesis-profile=fuzz --timeout=600 tests/feed/test_decode.py tests/transport/test_noise.py

kill-check: $(READY) ## Kill fifty recorders at random moments, many while they merge, and read what they left; half a minute.
	$(BIN)/python tests/recording/killed.py

bench-days: $(READY) ## Measure how soon a day of 64 nodes opens, seeks and is told; 9 GB in /tmp, half an hour.
	$(BIN)/python bench/days.py

bench-screen: $(READY) ## Measure what the screen costs, how soon it answers a key, what it sends; a quarter of an hour.
	@test -x build/bench-tools/bin/nvitop || { $(PYTHON) -m venv build/bench-tools \
	  && build/bench-tools/bin/pip install --quiet --disable-pip-version-check nvitop==1.7.2 glances==4.5.8; }
	$(BIN)/python bench/screen.py

html-check: $(READY) ## Open the pages of `report --html` in Chromium, draw and print them into build/html-check; a minute.
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; }
	$(BIN)/python bench/page.py

clean: ## Remove what the other verbs made.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist snapshot_report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
