# dynagate: `make run` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := $(wildcard sw hw sim fixedpoint tests examples packaging docs/*.py)

# Containers often forbid Python to keep bytecode. Each process would then compile the package again, for a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-core test-oldest test-long test-torch coverage mutation fuzz synth bench papers docs lint format constraints wheel release clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp  ## Build, simulate and check iiwa14's forward dynamics gradient at II = 8
	$(BIN)/dynagate run iiwa14 --function forward_dynamics_gradient --ii 8 --states 1024

# Lint runs next to the tests, because mypy uses one core. Its output follows theirs.
test: $(VENV)/test.stamp  ## Run lint, types and all tests but the long ones
	@mkdir -p build
	@{ $(LINT); } >build/lint.log 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest -n auto --dist worksteal; tests=$$?; \
	wait $$lint; lint=$$?; cat build/lint.log; exit $$((tests || lint))

test-fast: $(VENV)/test.stamp  ## Run some quick tests of each subject: tests/fast.txt lists them
	$(BIN)/python -m pytest -n auto --dist worksteal $$(grep -v '^#' tests/fast.txt)

# Each Python has an environment of its own, with the newest versions that pip finds: constraints.txt fits one Python.
CORE := robot/test_urdf dynamics/test_dynamics graph/test_graph graph/test_derivatives fixedpoint/test_fixedpoint \
	graph/test_loops motion/test_forces project/test_forge
test-core:  ## Run the tests of the core with the extra dev only, on any supported Python: make test-core PYTHON=python3.10
	$(PYTHON) -m venv build/$(notdir $(PYTHON))
	build/$(notdir $(PYTHON))/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	build/$(notdir $(PYTHON))/bin/python -m pytest -n auto $(CORE:%=tests/%.py)

test-oldest:  ## Run the tests of the core with the oldest packages that pyproject.toml allows and that have wheels
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/oldest/bin/uv pip install --quiet --python build/oldest/bin/python --resolution lowest-direct --only-binary :all: \
		--editable '.[dev]'
	build/oldest/bin/python -m pytest -n auto $(CORE:%=tests/%.py)

test-long: $(VENV)/test.stamp  ## Run what takes long: sweeps over robots, widths and options
	$(BIN)/python -m pytest --long -m long

# PyTorch alone is the size of all else. Where pip knows an index with a CPU wheel, that is taken.
test-torch: $(VENV)/test.stamp  ## Install PyTorch and run the tests of its operators
	$(PIP) --editable '.[torch]'
	$(BIN)/python -m pytest tests/learning/test_torch.py

coverage: $(VENV)/test.stamp  ## Run the tests and print the lines that they do not run; pages in build/coverage
	$(PIP) --editable '.[coverage]'
	$(BIN)/python -m pytest -n auto --dist worksteal $(COVERED) --cov=dynagate --cov-branch --cov-report=term:skip-covered \
		--cov-report=html:build/coverage

MUTANTS ?= 200
MUTATED ?= sw/dynagate/graph fixedpoint
mutation: $(VENV)/test.stamp  ## Count the mutants of graphs and fixed point that the tests see: make mutation MUTANTS=200
	$(BIN)/python -m tests.mutation $(MUTATED) --mutants $(MUTANTS)

MINUTES ?= 10
fuzz: $(VENV)/test.stamp  ## Compare all executors on what a seed draws: make fuzz MINUTES=10 SEED=7
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

ROBOT ?= iiwa14
FUNCTION ?= forward_dynamics_gradient
II ?= 8
ERROR ?= 1e-3
FAMILY ?= xcup
synth: $(VENV)/test.stamp  ## Synthesize with Yosys: make synth ROBOT=hyq FUNCTION=... II=8 ERROR=1e-3 FAMILY=xcup
	$(BIN)/dynagate synth $(ROBOT) --function $(FUNCTION) --ii $(II) --error $(ERROR) --family $(FAMILY)

bench: $(VENV)/test.stamp  ## Measure the speed of the executors and tools
	$(BIN)/python -m tests.bench

papers: $(VENV)/test.stamp  ## Run the command of each row of docs/papers.md in short form; FULL=1 runs them in full
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m examples.papers $(if $(FULL),,--short)

docs: $(VENV)/docs.stamp  ## Build the documentation site in build/site, without a broken link
	@mkdir -p build/pages
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs build/pages build/site
	@echo build/site/index.html

LINT = $(BIN)/ruff check $(SOURCES) && $(BIN)/ruff format --check $(SOURCES) \
	&& $(BIN)/lint-imports && $(BIN)/mypy -p dynagate && $(BIN)/python docs/lint_pages.py && $(BIN)/python docs/lint_names.py \
	&& $(BIN)/python docs/error_codes.py
lint: $(VENV)/test.stamp  ## Check style, imports, types, the language of pages and the codes of errors
	$(LINT)

format: $(VENV)/test.stamp  ## Format the code
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

constraints: $(VENV)/test.stamp $(VENV)/release.stamp  ## Write constraints.txt from what is installed
	@mkdir -p build
	@{ head -1 constraints.txt; $(BIN)/python -m pip freeze --all --exclude-editable | grep -v "^pip=="; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

wheel: $(VENV)/release.stamp  ## Build the sdist and the wheel, and try both, the wheel on each Python here
	$(BIN)/python packaging/try_wheel.py

release: $(VENV)/release.stamp  ## Build, try and tag the committed version; TAG=v1.2.3 checks that tag and makes none
	$(BIN)/python packaging/release.py $(if $(TAG),--tag $(TAG))

clean:  ## Remove what was built, the environment included
	rm -rf build dist $(VENV) *.egg-info

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	@for tool in git make g++ perl; do command -v $$tool >/dev/null || { echo "$$tool is needed and is not on the path"; exit 1; }; done
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run.stamp: $(VENV)/python.stamp pyproject.toml constraints.txt
	$(PIP) --editable '.[hw,sim]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/python.stamp pyproject.toml constraints.txt
	$(PIP) --editable '.[hw,sim,synth,bench,sweep,mpc,test]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/docs.stamp: $(VENV)/python.stamp pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/release.stamp: $(VENV)/python.stamp pyproject.toml constraints.txt
	$(PIP) --editable '.[release]'
	@touch $@
