"""A link that logs a browser in."""

from __future__ import annotations

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.login_sessions import LoginSessions
from trace_platform.app.instance.open_instance import read_ports
from trace_platform.app.instance.settings import load_settings
from trace_platform.domain.errors import NotFound


def make_login_link(home: Home) -> str:
    """Good for one login, within fifteen minutes. The code stands behind the '#', which a browser
    sends nowhere. Raise NotFound for an instance that never ran."""
    settings = load_settings(home)
    if "gateway" not in read_ports(home):
        raise NotFound(f"{home.root} has no gateway yet", hint="`trace up` starts it")
    code = LoginSessions(home, settings.gateway.session_hours * 3600).make_code()
    return f"{console_url(home)}/login#{code}"


def console_url(home: Home) -> str:
    """Where a browser finds the instance's console."""
    asked = load_settings(home).gateway
    scheme = "https" if asked.certificate else "http"
    host = asked.hosts[0] if asked.hosts else "localhost"
    return f"{scheme}://{host}:{read_ports(home)['gateway']}"
