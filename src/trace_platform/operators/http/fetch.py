"""All pages of an answer, before any row of it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trace_platform.domain.errors import EndpointRefused
from trace_platform.drivers.http_endpoint import HttpAnswer, HttpEndpoint, HttpRequest
from trace_platform.operators.http.config import Config
from trace_platform.operators.http.known_answer import KnownAnswer, KnownPage
from trace_platform.operators.http.paging import Ask, Page, with_params
from trace_platform.operators.http.records import Document, read_page

_MB = 10**6


@dataclass(frozen=True, slots=True)
class Fetched:
    bodies: list[bytes]
    pages: tuple[KnownPage, ...]

    @property
    def digest(self) -> str:
        found = hashlib.sha256()
        for body in self.bodies:
            found.update(hashlib.sha256(body).digest())
        return found.hexdigest()

    def documents(self, config: Config) -> Iterator[Document]:
        """One by one: as objects they take many times their bytes."""
        for number, body in enumerate(self.bodies, start=1):
            yield read_page(config, body, number)


def fetch(config: Config, endpoint: HttpEndpoint, known: KnownAnswer) -> Fetched | None:
    """None: the endpoint says of every page that it is as it was."""
    if not known.pages:
        return _Reading(config, endpoint).all_from(None)
    first = known.pages[0]
    given = endpoint.ask(HttpRequest(first.url), config.max_mb * _MB, first.validators)
    if given is None and _are_unchanged(config, endpoint, known):
        return None
    return _Reading(config, endpoint).all_from(given)


def first_ask(config: Config) -> Ask:
    url = with_params(config.url, dict(config.params)) if config.params else config.url
    ask = Ask(url, config.body)
    if config.graphql is not None:
        ask = Ask(url, config.graphql.model_dump(), place="variables")
    return config.paging.first(ask) if config.paging else ask


def _are_unchanged(config: Config, endpoint: HttpEndpoint, known: KnownAnswer) -> bool:
    """The pages behind the first one. Where one is another, its neighbours may have moved: then all
    are read anew."""
    return all(
        endpoint.ask(HttpRequest(page.url), config.max_mb * _MB, page.validators) is None
        for page in known.pages[1:]
    )


class _Reading:
    """From page to page."""

    def __init__(self, config: Config, endpoint: HttpEndpoint) -> None:
        self._config = config
        self._endpoint = endpoint
        self._left = config.max_mb * _MB
        self._records = 0
        self._bodies: list[bytes] = []
        self._pages: list[KnownPage] = []

    def all_from(self, first: HttpAnswer | None) -> Fetched:
        """With the first page, where it is there already."""
        ask: Ask | None = first_ask(self._config)
        seen: set[HttpRequest] = set()
        while ask is not None:
            request = _request(ask)
            if request in seen:
                raise EndpointRefused(
                    f"page {len(self._bodies)} leads back to a page that was read",
                    hint="look at an answer, and correct paging",
                )
            self._refuse_more()
            seen.add(request)
            answer = first or self._endpoint.ask(request, self._left)
            assert answer is not None, "nothing was said of an earlier answer"
            first = None
            ask = self._taken(answer, ask)
        return Fetched(self._bodies, self._comparable())

    def _taken(self, answer: HttpAnswer, ask: Ask) -> Ask | None:
        """Keep a page; what is asked for the next one."""
        self._left -= len(answer.body)
        self._bodies.append(answer.body)
        self._pages.append(KnownPage(ask.url, answer.validators))
        paging, number = self._config.paging, len(self._bodies)
        if paging is None and self._config.graphql is None:
            return None
        document = read_page(self._config, answer.body, number, self._endpoint.scrub)
        self._records += len(document.records)
        page = Page(
            number=number,
            document=document.whole,
            records=len(document.records),
            records_so_far=self._records,
            next_url=answer.next_url,
        )
        found = paging.after(ask, page) if paging else None
        if found is None:
            return None
        self._refuse_repeated(page)
        return replace(found, url=self._endpoint.led_to(answer.url, found.url))

    def _refuse_repeated(self, page: Page) -> None:
        """An endpoint that does not know the parameter gives the same page for ever."""
        if page.records and self._bodies[-2:-1] == self._bodies[-1:]:
            raise EndpointRefused(
                f"page {page.number} is page {page.number - 1} again",
                hint="look at an answer: does the endpoint know the parameters of paging?",
            )

    def _refuse_more(self) -> None:
        if len(self._bodies) >= self._config.max_pages:
            raise EndpointRefused(
                f"there are more than {self._config.max_pages:,} pages",
                hint="raise max_pages, or ask for larger pages",
            )

    def _comparable(self) -> tuple[KnownPage, ...]:
        """None where a server does not say by what it knows a page, or repeats our secret; what is
        posted has no such words."""
        if self._config.posts:
            return ()
        for page in self._pages:
            if not page.validators.headers or self._endpoint.holds_secret(page.url):
                return ()
        return tuple(self._pages)


def _request(ask: Ask) -> HttpRequest:
    return HttpRequest(ask.url, None if ask.body is None else json.dumps(ask.body).encode())
