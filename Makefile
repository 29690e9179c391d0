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

.PHONY: help demo up test fault check bench docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, start everything, ingest a chain, query it (RPC_URL=..., ARGS=--once)"
	@echo "make up      start an instance and keep it running"
	@echo "make test    all tests but the long ones, some twenty minutes on two cores (ARGS for pytest)"
	@echo "make fault   the long ones: mutants, the engine under faults, full size (ARGS: tests/fault/FILE)"
	@echo "make check   ruff, mypy --strict, import-linter"
	@echo "make bench   measurements next to their peers (ONLY=name)"
	@echo "make docs    write docs/reference/ from the code"
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

demo: $(V)/.run-installed
	$(call stoppable,$(V)/trace demo --home "$(HOME_DIR)" $(ARGS))

up: $(V)/.run-installed
	$(call stoppable,$(V)/trace up --home "$(HOME_DIR)" $(ARGS))

test: $(V)/.dev-installed
	@$(V)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

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
	  .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
