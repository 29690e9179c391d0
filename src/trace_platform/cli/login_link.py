"""`trace login-link`"""

from __future__ import annotations

import typer

from trace_platform.cli.options import HomeOption, existing_home


def login_link(home: HomeOption = None) -> None:
    """Print a link that logs a browser in: once, within fifteen minutes, as the instance's owner.

    Whoever has the link can do what you can: do not pass it on.
    """
    from trace_platform.app.instance.login_link import make_login_link

    typer.echo(make_login_link(existing_home(home)))
