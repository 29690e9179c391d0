"""`trace keys`: what signs and what opens, and how to change it while tasks run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trace_platform.cli.options import HomeOption, JsonOption, existing_home, group
from trace_platform.cli.words import instant

if TYPE_CHECKING:
    from trace_platform.app.instance.home import Home
    from trace_platform.drivers.lite.pem_signer import KeyAge

_WORKER_TOKEN = "worker_token"  # noqa: S105, the name of its file

keys = group("Rotate the key of capability tokens, or the token of the workers.")


@keys.command()
def rotate(
    worker: Annotated[
        bool, typer.Option("--worker", help="The token that workers show, not the signing key.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new key, or a new worker token. Nothing needs to stop, and nothing needs to run."""
    place = existing_home(home)
    done, words = _rotate_worker_token(place) if worker else _rotate_task_key(place)
    typer.echo(json.dumps({"home": str(place.root), **done}) if as_json else words)


@keys.command("list")
def list_keys(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Which keys are accepted, and until when. Shows no secret."""
    place = existing_home(home)
    task_keys, worker = _task_keys(place), _worker_token(place)
    if as_json:
        found = {"task_keys": task_keys, "worker_token": worker}
        typer.echo(json.dumps({"home": str(place.root), **found}))
        return
    for key in task_keys:
        until = f"until {key['accepted_until']}" if key["accepted_until"] else "soon"
        state = "signs" if key["signs"] else until
        typer.echo(f"task key      {key['kid']}  since {key['created_at']}  {state}")
    if worker:
        before = ", the one before is accepted too" if worker["previous_accepted"] else ""
        typer.echo(f"worker token  since {worker['created_at']}{before}")
    if not (task_keys or worker):
        typer.echo("no keys yet: the first start makes them")


def _rotate_task_key(place: Home) -> tuple[dict[str, Any], str]:
    from trace_platform.drivers.lite.pem_signer import FOLDER, PemSigner
    from trace_platform.drivers.token_signer import SHOWN_FIRST_S

    signer = PemSigner(place.secrets / FOLDER)
    kid = signer.rotate()
    until = _shown(signer.ages()[1])["accepted_until"]
    words = (
        f"{kid} is shown to verifiers now, and signs in {SHOWN_FIRST_S} s.\n"
        f"Tokens of the key before stay valid until they expire, {until} at the latest."
    )
    return {"rotated": "task_key", "kid": kid, "older_accepted_until": until}, words


def _rotate_worker_token(place: Home) -> tuple[dict[str, Any], str]:
    from trace_platform.app.instance.rotatable_secret import RotatableSecret

    RotatableSecret(place.secrets, _WORKER_TOKEN).rotate()
    words = (
        "Workers that start now show a new token; a running dispatcher accepts it at once.\n"
        "The one before stays valid until the next rotation: restart the workers before that."
    )
    return {"rotated": "worker_token", "previous_accepted": True}, words


def _task_keys(place: Home) -> list[dict[str, Any]]:
    from trace_platform.drivers.lite.pem_signer import FOLDER, PemSigner

    folder = place.secrets / FOLDER
    # Looking must not make a key.
    return [_shown(age) for age in PemSigner(folder).ages()] if folder.is_dir() else []


def _worker_token(place: Home) -> dict[str, Any] | None:
    file = place.secrets / _WORKER_TOKEN
    if not file.exists():
        return None
    previous = file.with_name(f"{_WORKER_TOKEN}.previous")
    return {
        "created_at": instant(file.stat().st_mtime),
        "previous_accepted": previous.exists(),
    }


def _shown(age: KeyAge) -> dict[str, Any]:
    return {
        "kid": age.kid,
        "created_at": instant(age.created),
        "accepted_until": instant(age.accepted_until),
        "signs": age.signs,
    }
