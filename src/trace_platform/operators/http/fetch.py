"""All pages of an answer, before any row of it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from trace_platform.domain.errors import EndpointRefused
from trace_platform.drivers.http_endpoint import HttpAnswer, HttpEndpoint
from trace_platform.operators.http.config import Config
from trace_platform.operators.http.known_answer import KnownAnswer, KnownPage
from trace_platform.operators.http.paging import Page, with_params
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
    given = endpoint.get(first.url, config.max_mb * _MB, first.validators)
    if given is None and _are_unchanged(config, endpoint, known):
        return None
    return _Reading(config, endpoint).all_from(given)


def first_url(config: Config) -> str:
    url = with_params(config.url, dict(config.params)) if config.params else config.url
    return config.paging.first(url) if config.paging else url


def _are_unchanged(config: Config, endpoint: HttpEndpoint, known: KnownAnswer) -> bool:
    """The pages behind the first one. Where one is another, its neighbours may have moved: then all
    are read anew."""
    return all(
        endpoint.get(page.url, config.max_mb * _MB, page.validators) is None
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
        url: str | None = first_url(self._config)
        seen: set[str] = set()
        while url is not None:
            if url in seen:
                raise EndpointRefused(
                    f"page {len(self._bodies)} leads back to a page that was read",
                    hint="look at an answer, and correct paging",
                )
            self._refuse_more()
            seen.add(url)
            answer = first or self._endpoint.get(url, self._left)
            assert answer is not None, "nothing was said of an earlier answer"
            first = None
            url = self._taken(answer, url)
        return Fetched(self._bodies, self._comparable())

    def _taken(self, answer: HttpAnswer, url: str) -> str | None:
        """Keep a page; where the next one is."""
        self._left -= len(answer.body)
        self._bodies.append(answer.body)
        self._pages.append(KnownPage(url, answer.validators))
        paging = self._config.paging
        if paging is None:
            return None
        number = len(self._bodies)
        document = read_page(self._config, answer.body, number)
        self._records += len(document.records)
        page = Page(
            number=number,
            document=document.whole,
            records=len(document.records),
            records_so_far=self._records,
            next_url=answer.next_url,
        )
        found = paging.after(url, page)
        return None if found is None else self._endpoint.led_to(answer.url, found)

    def _refuse_more(self) -> None:
        if len(self._bodies) >= self._config.max_pages:
            raise EndpointRefused(
                f"there are more than {self._config.max_pages:,} pages",
                hint="raise max_pages, or ask for larger pages",
            )

    def _comparable(self) -> tuple[KnownPage, ...]:
        """None where a server does not say by what it knows a page, or repeats our secret."""
        for page in self._pages:
            if not page.validators.headers or self._endpoint.holds_secret(page.url):
                return ()
        return tuple(self._pages)
