"""How the next page of an answer is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import quote_plus

from pydantic import BaseModel, ConfigDict, Field

from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.operators.http.json_path import found_at, placed_at

_Param = Annotated[str, Field(min_length=1, max_length=128)]
_Path = Annotated[str, Field(min_length=1, max_length=500)]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for one page."""

    url: str
    # A document of JSON, that is posted.
    body: Any = None
    # Where in the document parameters are.
    place: str = ""

    def with_params(self, given: Mapping[str, Any]) -> Ask:
        """With these parameters in the place of those of the same names."""
        if self.body is None:
            return replace(self, url=with_params(self.url, dict(given)))
        body = self.body
        for name, value in given.items():
            body = placed_at(body, f"{self.place}.{name}" if self.place else name, value)
        return replace(self, body=body)


class _Paging(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def reads_json(self) -> bool:
        """Whether it looks into the answer."""
        return False

    def first(self, ask: Ask) -> Ask:
        return ask

    def after(self, ask: Ask, page: Page) -> Ask | None:
        """What is asked for the page behind this one; None: it is the last."""
        raise NotImplementedError


class NextLink(_Paging):
    """The answer says the address of the next page."""

    type: Literal["next_link"] = Field(description="The answer says the next page's address.")
    path: _Path | None = Field(
        default=None, description="Where in the document it is; unless given, in the header Link."
    )

    @property
    def reads_json(self) -> bool:
        return self.path is not None

    def after(self, ask: Ask, page: Page) -> Ask | None:
        url = page.next_url if self.path is None else _said(page, self.path)
        return replace(ask, url=str(url)) if url else None


class Cursor(_Paging):
    """The answer says a word that is the parameter of the next request."""

    type: Literal["cursor"] = Field(description="The answer says the next page's parameter.")
    path: _Path = Field(description="Where in the document it is.")
    param: _Param = Field(default="cursor", description="The parameter.")
    has_more_path: _Path | None = Field(
        default=None,
        description="Where in the document stands whether there is another page. Unless given the "
        "last page is the one that says no parameter.",
    )

    @property
    def reads_json(self) -> bool:
        return True

    def after(self, ask: Ask, page: Page) -> Ask | None:
        if self.has_more_path is not None and not _has_more(page, self.has_more_path):
            return None
        cursor = _said(page, self.path)
        return None if cursor is None else ask.with_params({self.param: cursor})


class PageNumber(_Paging):
    """Pages are counted; the last one is empty."""

    type: Literal["page_number"] = Field(description="Pages are numbered, until one is empty.")
    param: _Param = Field(default="page", description="The parameter.")
    first_page: int = Field(default=1, ge=0, description="Number of the first page.")

    def first(self, ask: Ask) -> Ask:
        return ask.with_params({self.param: self.first_page})

    def after(self, ask: Ask, page: Page) -> Ask | None:
        number = self.first_page + page.number
        return ask.with_params({self.param: number}) if page.records else None


class Offset(_Paging):
    """Records are counted; behind the last one there is an empty page."""

    type: Literal["offset"] = Field(description="Records are counted, until a page is empty.")
    offset_param: _Param = Field(default="offset", description="The parameter.")
    limit_param: _Param = Field(default="limit", description="How many records a page has.")
    limit: int = Field(ge=1, le=1_000_000, description="So many are asked for.")

    def first(self, ask: Ask) -> Ask:
        return ask.with_params({self.offset_param: 0, self.limit_param: self.limit})

    def after(self, ask: Ask, page: Page) -> Ask | None:
        # By what came: a server may give fewer than it was asked for, long before the end.
        given = {self.offset_param: page.records_so_far, self.limit_param: self.limit}
        return ask.with_params(given) if page.records else None


Paging = Annotated[NextLink | Cursor | PageNumber | Offset, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class Page:
    """What is known of a page once it was read."""

    # From 1.
    number: int
    # The document, of JSON.
    document: Any
    records: int
    records_so_far: int
    # In the header Link.
    next_url: str | None


def with_params(url: str, params: dict[str, Any]) -> str:
    """The address, with these parameters in the place of those of the same names."""
    head, _, query = url.partition("?")
    names = {quote_plus(name) for name in params}
    kept = [part for part in query.split("&") if part and part.partition("=")[0] not in names]
    given = [f"{quote_plus(name)}={quote_plus(_text(value))}" for name, value in params.items()]
    asked = "&".join([*kept, *given])
    return f"{head}?{asked}" if asked else head


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _said(page: Page, path: str) -> str | int | None:
    """Nothing, null and an empty text are the end."""
    value = found_at(page.document, path)
    if value is None or value == "" or value is False:
        return None
    if not isinstance(value, str | int):
        raise IncompatibleSchema(
            f"page {page.number}: {path} is no text, so the next page cannot be found",
            hint="look at an answer, and correct `path` in paging",
            page=page.number,
        )
    return value


def _has_more(page: Page, path: str) -> bool:
    """A place that is not there would end each answer with its first page."""
    value = found_at(page.document, path)
    if not isinstance(value, bool):
        raise IncompatibleSchema(
            f"page {page.number}: {path} is neither true nor false, so it is not known whether "
            "this is the last one",
            hint="look at an answer, and correct `has_more_path` in paging",
            page=page.number,
        )
    return value
