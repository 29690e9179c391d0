# Everything a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
HOME_DIR ?= $(or $(TRACE_HOME),.trace)
ARGS ?=
ONLY ?=
V := .venv/bin
# A node's URL may hold a key: it travels in the environment, not in the process list.
export RPC_URL
# Ctrl-C is the way to stop what stays up, and no failure.
stoppable = @trap : INT; $(1) || [ $$? -eq 130 ]

.PHONY: help demo up test fault check bench docs console clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, start everything, ingest a chain, query it (RPC_URL=..., ARGS=--once)"
	@echo "make up      start an instance and keep it running"
	@echo "make test    all tests but the long ones, a quarter of an hour on two cores (ARGS for pytest)"
	@echo "make fault   the long ones: mutants, the engine under faults, full size (ARGS: tests/fault/FILE)"
	@echo "make check   ruff, mypy --strict, import-linter"
	@echo "make bench   measurements next to their peers (ONLY=name)"
	@echo "make docs    write docs/reference/ from the code"
	@echo "make console build the console, if its sources are newer (demo, up and test do it too)"
	@echo "make clean   as if freshly cloned"

$(V)/.run-installed: requirements/run.lock pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { echo "there is no $(PYTHON): install Python 3.11 or newer" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Trace needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv (the first time takes a minute or two) ..."
	@test -x $(V)/python || "$(PYTHON)" -m venv .venv
	@$(V)/python -m pip install -qq --disable-pip-version-check -r requirements/run.lock && \
	  $(V)/python -m pip install -qq --disable-pip-version-check --no-deps -e . || \
	  { echo "The packages could not be installed: check the network (pip's own settings count), then run make again." >&2; exit 1; }
	@touch $@

$(V)/.dev-installed: $(V)/.run-installed requirements/dev.lock
	@$(V)/python -m pip install -qq --disable-pip-version-check -r requirements/dev.lock
	@touch $@

# What the console is made of; a build is as new as its index.html.
CONSOLE := src/trace_platform/console_dist/index.html
CONSOLE_SOURCES := $(shell find console -name node_modules -prune -o -name schema.gen.ts -o -type f -print) \
  $(wildcard docs/*.md) src/trace_platform/gateway/openapi.json
# An instance runs without a console too: what is started goes on where npm cannot be reached.
console_if_it_can = @$(MAKE) -s $(CONSOLE) || echo "Going on without the console; \`make console\` builds it." >&2

console: $(CONSOLE)

$(CONSOLE): $(CONSOLE_SOURCES) requirements/console.lock | $(V)/.run-installed
	@PYTHON=$(V)/python console/build.sh

demo: $(V)/.run-installed
	$(console_if_it_can)
	$(call stoppable,$(V)/trace demo --home "$(HOME_DIR)" $(ARGS))

up: $(V)/.run-installed
	$(console_if_it_can)
	$(call stoppable,$(V)/trace up --home "$(HOME_DIR)" $(ARGS))

test: $(V)/.dev-installed $(CONSOLE)
	@$(V)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

fault: $(V)/.dev-installed
	@$(V)/python -m pytest -m long -rfEP $(ARGS)

check: $(V)/.dev-installed
	@$(V)/ruff check .
	@$(V)/ruff format --check .
	@$(V)/mypy
	@$(V)/lint-imports

bench: $(V)/.dev-installed
	@$(V)/python -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

docs: $(V)/.dev-installed
	@$(V)/python -m docs.generate

clean:
	@if [ -x $(V)/trace ] && [ -d "$(HOME_DIR)" ]; then $(V)/trace down --home "$(HOME_DIR)"; fi
	@rm -rf "$(HOME_DIR)" .venv .tools bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache src/trace_platform/console_dist console/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
