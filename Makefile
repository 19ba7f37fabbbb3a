# Two commands for everybody: `make demo` and `make test`. Both install what is missing first.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

# The environment belongs to one checkout and one pyproject.toml; either changing means installing again.
KEY := $(shell (pwd; cat pyproject.toml) | sha256sum | cut -c1-16)

.PHONY: demo test docs lint typecheck format install clean speed

demo: install
	$(BIN)/python examples/voc_b5c3.py

test: lint typecheck
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

# Strict: a link that leads nowhere, or a public name without a docstring, ends it. A test does the same.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site
	@echo "site/index.html"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: install
	$(BIN)/mypy

install:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test "$$(cat $(VENV)/.installed 2>/dev/null)" = "$(KEY)" || { \
		echo "Installing into $(VENV): the first time takes some minutes and about 6 GB." && \
		$(BIN)/python -m pip install --quiet --upgrade pip && \
		$(BIN)/python -m pip install --quiet -e ".[dev]" && \
		echo $(KEY) > $(VENV)/.installed; }

speed: install
	$(BIN)/python benchmarks/speed/run.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache outputs site
