# Everything a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
HOME_DIR ?= .trace
ARGS ?=
ONLY ?=
V := .venv/bin

.PHONY: demo up test check bench clean

$(V)/.run-installed: requirements/run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Trace needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv (the first time takes a minute or two) ..."
	@test -x $(V)/python || $(PYTHON) -m venv .venv
	@$(V)/python -m pip install -qq --disable-pip-version-check -r requirements/run.lock
	@$(V)/python -m pip install -qq --disable-pip-version-check --no-deps -e .
	@touch $@

$(V)/.dev-installed: $(V)/.run-installed requirements/dev.lock
	@$(V)/python -m pip install -qq --disable-pip-version-check -r requirements/dev.lock
	@touch $@

demo: $(V)/.run-installed
	@$(V)/trace demo --home $(HOME_DIR) $(if $(RPC_URL),--rpc-url $(RPC_URL)) $(ARGS)

up: $(V)/.run-installed
	@$(V)/trace up --home $(HOME_DIR) $(ARGS)

test: $(V)/.dev-installed
	@$(V)/python -m pytest $(ARGS)

check: $(V)/.dev-installed
	@$(V)/ruff check .
	@$(V)/ruff format --check .
	@$(V)/mypy
	@$(V)/lint-imports

bench: $(V)/.dev-installed
	@$(V)/python -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

clean:
	@if [ -x $(V)/trace ] && [ -d $(HOME_DIR) ]; then $(V)/trace down --home $(HOME_DIR); fi
	@rm -rf $(HOME_DIR) .venv .tools bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
