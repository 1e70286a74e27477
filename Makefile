# make demo: the paper's first figure from a fresh clone. make test: everything that must hold.
PYTHON ?= python3
VENV := .venv
JOBS ?= 2# processes that share the tests
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types docs notebooks bench soak clean

demo: $(VENV)/demo.stamp
	$(BIN)/synib reproduce spurious-xor --out runs/demo

test: $(VENV)/test.stamp lint types
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(JOBS) --dist worksteal

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp
	$(BIN)/mypy

docs: $(VENV)/test.stamp
	$(BIN)/mkdocs build --strict --quiet

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
