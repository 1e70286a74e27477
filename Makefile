# make demo: the paper's first figure from a fresh clone. make test and make test-notebooks: everything that must hold.
PYTHON ?= python3
VENV := .venv
JOBS ?= 2# processes that share the tests
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-notebooks test-lowest test-pythons lint types docs notebooks bench soak clean

demo: $(VENV)/demo.stamp
	$(BIN)/synib reproduce spurious-xor --out runs/demo

test: $(VENV)/test.stamp lint types
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(JOBS) --dist worksteal --ignore=tests/test_notebooks.py

# Executes the notebooks of the gallery and holds them against what they say; CI runs it after make test.
test-notebooks: $(VENV)/test.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(JOBS) --dist worksteal tests/test_notebooks.py

# The trainers are left out: they need Lightning. What runs on the oldest versions that pyproject.toml allows, and on every supported Python that is installed: the core and a user's own data.
CORE := tests/objective tests/masks tests/methods tests/models tests/measure tests/own tests/properties --ignore=tests/properties/test_trainers.py
LOWEST_TORCH ?= 2.11.0

test-lowest:
	test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check "torch==$(LOWEST_TORCH)"
	$(VENV)-lowest/bin/pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable ".[audit,raw]" pytest hypothesis
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -q $(CORE)

test-pythons:
	for python in python3.11 python3.12 python3.13; do \
	  command -v $$python > /dev/null || { echo "$$python is not installed: left out"; continue; }; \
	  test -x $(VENV)-$$python/bin/python || $$python -m venv $(VENV)-$$python || exit 1; \
	  $(VENV)-$$python/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[audit,raw]" pytest hypothesis || exit 1; \
	  OMP_NUM_THREADS=1 $(VENV)-$$python/bin/python -m pytest -q $(CORE) || exit 1; \
	done

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

# Strict: a link, an anchor or a redirect that leads nowhere is an error.
docs: $(VENV)/test.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(VENV)/test.stamp
	$(BIN)/python docs/notebooks.py

bench: $(VENV)/demo.stamp
	$(BIN)/python benchmarks/step_overhead.py
	$(BIN)/python benchmarks/fleet_cpu.py
	$(BIN)/python benchmarks/method_cost.py

# Kills at random moments, damaged inputs, and what a cluster costs: an hour; docs/results/reliability.md tells what came of it.
soak: $(VENV)/test.stamp
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/fuzz.py --inputs 10000 --out docs/results/reliability/fuzz.csv
	$(BIN)/python benchmarks/cluster_overhead.py --seeds 41 --rounds 1 --out docs/results/benchmarks

# torch first and by its pinned version: a range could bring a build with gigabytes of CUDA packages.
$(VENV)/demo.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable .
	touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) --editable ".[all,dev]"
	touch $@ $(VENV)/demo.stamp

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
