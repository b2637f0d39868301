# The two commands: `make tune` and `make test`. Both set up all they need in .venv and in the
# user's cache; nothing else of the machine is touched.

PYTHON ?= python3
BIN    := .venv/bin

.PHONY: help tune test test-fast test-slow test-engine test-containers test-browser test-docker lint format clean-venv
help:
	@echo "make tune       build the engine, tune it, write deploy/local-cpu/computility-run.yaml"
	@echo "make test       all tests but the browser's: a short study on the real engine, and containers where"
	@echo "                a daemon of make test-docker runs"
	@echo "make test-fast  what needs no engine, in under two minutes"
	@echo "make test-browser the page in a real Chromium; its pictures are left in artifacts/browser"
	@echo "make test-docker  the container tests, with a Docker daemon of their own (root, Debian)"
	@echo "make lint       ruff, mypy, import-linter"

.venv/.installed: pyproject.toml constraints.txt tuner/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tuner needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -qq --disable-pip-version-check --constraint constraints.txt 'pip>=25.1'
	$(BIN)/pip install -qq --constraint constraints.txt --editable .
	@touch $@

.venv/.dev: .venv/.installed
	$(BIN)/pip install -qq --constraint constraints.txt --group dev
	@touch $@

tune: .venv/.installed
	$(BIN)/tuner run search_spaces/local_cpu.yaml

test: lint test-fast test-slow test-engine test-containers

test-fast: .venv/.dev
	$(BIN)/pytest -m "not slow and not engine and not docker and not browser" -n auto --dist loadgroup

test-slow: .venv/.dev
	$(BIN)/pytest -m "slow and not engine and not docker and not browser" -n auto --dist loadgroup

test-engine: .venv/.dev
	$(BIN)/pytest -m "engine and not docker" -n auto --dist loadgroup

# Part of make test, which starts no daemon on anybody's machine: it uses the one of test-docker where
# that runs, and says so where it does not. CI has it started: CONTAINERS=start.
CONTAINERS ?= --running
test-containers: .venv/.dev
	@if host="$$(.ci/docker-up $(filter-out start,$(CONTAINERS)))"; then \
	  set -x; DOCKER_HOST="$$host" $(BIN)/pytest -m docker; \
	elif [ "$(CONTAINERS)" = start ]; then exit 1; \
	else echo "LEFT OUT: the container tests, as no daemon of ours runs. make test-docker starts one (root, Debian)."; fi

# Needs root on Debian where there is no Chromium: it is installed then.
test-browser: .venv/.dev
	chromium="$$(.ci/chromium-up)" && TUNER_CHROMIUM="$$chromium" $(BIN)/pytest -m browser

# Needs root on Debian: starts a Docker daemon of its own, and leaves it running for the next time.
test-docker:
	$(MAKE) test-containers CONTAINERS=start

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean-venv:
	rm -rf .venv
