# `make` alone prints what there is. Needs make and a Python >= 3.11; everything else goes into .venv here.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# Stamps: an environment is touched again only when what it is made from has changed.
RUN := .venv/.run
DEV := .venv/.dev
PEERS := .venv-peers/.installed

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## "; print "make ...\n" } /^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(RUN) ## Install, then watch an agent on the bundled model work, pause, be killed and go on
	@$(BIN)/runwell demo

# Containers often tell Python to keep no compiled files; here hundreds of programs are started, which would compile all
# anew each time.
.PHONY: unit
unit: export PYTHONDONTWRITEBYTECODE :=
unit: $(DEV) ## The tests that start no other program
	@echo "== tests: units"
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not integration and not slow" $(ARGS) || [ $$? -eq 5 ] # 5: there are none

.PHONY: test
test: export PYTHONDONTWRITEBYTECODE :=
test: lint unit ## Lint, then every test: units, then those with programs, servers and the bundled model
	@scripts/system_packages.sh $(BIN)/python
	@echo "== tests: programs, servers, the bundled model"
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "integration or slow" $(ARGS) || [ $$? -eq 5 ]

.PHONY: lint
lint: $(DEV) ## Format check, lint, strict types, floors and cycles, dependencies
	@echo "== ruff format";  $(BIN)/ruff format --check --quiet . || { echo 'run: make format'; exit 1; }
	@echo "== ruff check";   $(BIN)/ruff check --quiet .
	@echo "== mypy";         $(BIN)/mypy
	@echo "== import-linter"; NO_COLOR=1 $(BIN)/lint-imports --no-logo
	@echo "== deptry";       found=$$($(BIN)/deptry src --no-ansi 2>&1) || { echo "$$found"; exit 1; }

.PHONY: format
format: $(DEV) ## Format, and mend what the linter can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(DEV) $(PEERS) ## Measure against the peers (ONLY='chain.*' SCALE=0.1 REPEATS=1 for a part)
	@mkdir -p benchmarks/results
	@BENCH_ADAPTERS=$(CURDIR)/benchmarks $(BIN)/python benchmarks/bench.py \
		--python langchain=.venv-peers/bin/python --python pydantic_ai=.venv-peers/bin/python \
		--only '$(or $(ONLY),*)' --scale $(or $(SCALE),1) --repeats $(or $(REPEATS),3) --clock $(or $(CLOCK),wall) \
		--base runwell \
		--json benchmarks/results/latest.json --markdown benchmarks/results/latest.md

.PHONY: docs
docs: $(DEV) ## Write the pages that are made from the code (errors, cli, providers, agents/who-decides-what in docs/)
	@$(BIN)/python scripts/error_pages.py --write
	@$(BIN)/python scripts/cli_page.py --write
	@$(BIN)/python scripts/provider_page.py --write
	@$(BIN)/python scripts/seat_pages.py --write

.PHONY: install
install: $(DEV) ## Make .venv with runwell (editable), its extras and the tools of development

.PHONY: clean
clean: ## Remove environments, caches and builds (downloaded models stay)
	rm -rf .venv .venv-peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN): pyproject.toml scripts/environment.sh
	@scripts/environment.sh .venv -e '.[all]'
	@touch $@

$(DEV): pyproject.toml scripts/environment.sh
	@scripts/environment.sh .venv -e '.[all]' --group dev
	@touch $(RUN) $@

$(PEERS): benchmarks/peers.txt scripts/environment.sh
	@scripts/environment.sh .venv-peers -r benchmarks/peers.txt
	@touch $@
