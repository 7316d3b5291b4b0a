# `make demo` and `make test` work as the first command after a clone; both begin with `make setup`.
.DEFAULT_GOAL := help
.PHONY: help setup demo check test soak lint format protos lock wheel clean java

BIN := .venv/bin
# What pytest leaves out unless TESTS=all.
CHOSEN := $(if $(filter all,$(TESTS)),,-m "not slow")

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv: dependencies, generated code, compiled codec, the kraft command
	@bash scripts/setup.sh

java:
	@sh scripts/require-java.sh

demo: java setup ## real data through three nodes into Spark, with a leader killed on the way
	@$(BIN)/kraft demo

check: lint ## within a minute, without Java: lint, and the unit tests of what differs from the main branch
	@$(BIN)/python -m tests.changed $(ARGS)

# How many workers, which files stay together, and in which order they run: tests/support/worker_groups.py.
# Bytecode is kept also where the environment says otherwise: without it every worker compiles every test, which takes 20 s.
test: java setup ## the quick tests, on all cores; TESTS=all with the slow ones, as CI; ARGS="-k name" goes to pytest, "-n 0" for one process
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(CHOSEN) $(ARGS)

soak: setup ## long searches with fresh seeds, one after the other; SOAK_SECONDS=3600 for all, ARGS="--only kill --seed 7"
	@$(BIN)/python -m tests.soak $(ARGS)

lint: setup ## ruff, mypy, and the import rules of the architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## put the source into its one format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

protos: ## regenerate the code from proto/ only
	@test -x $(BIN)/python || { echo "protos: there is no .venv yet; run make setup" >&2; exit 1; }
	@$(BIN)/python setup.py -q messages

lock: ## resolve the dependencies of pyproject.toml anew into requirements.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra console --extra demo --group dev pyproject.toml -o requirements.lock

wheel: setup ## build a wheel with the compiled codec into dist/, for this Python: those who install it need no compiler
	@bash scripts/wheel.sh

clean: ## remove everything that the other targets made
	rm -rf .venv build dist kraft_broker.egg-info kraft/rpc/pb kraft/quorum/pb kraft/log/format/*.so
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
