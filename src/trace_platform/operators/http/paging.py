"""Where the next page of an answer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import quote_plus

from pydantic import BaseModel, ConfigDict, Field

from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.operators.http.json_path import found_at

_Param = Annotated[str, Field(min_length=1, max_length=128)]
_Path = Annotated[str, Field(min_length=1, max_length=500)]


class _Paging(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def reads_json(self) -> bool:
        """Whether it looks into the answer."""
        return False

    def first(self, url: str) -> str:
        return url

    def after(self, url: str, page: Page) -> str | None:
        """Where the page behind this one is, seen from it; None: it is the last."""
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

    def after(self, url: str, page: Page) -> str | None:
        if self.path is None:
            return page.next_url
        return _said(page, self.path)


class Cursor(_Paging):
    """The answer says a word that is the parameter of the next request."""

    type: Literal["cursor"] = Field(description="The answer says the next page's parameter.")
    path: _Path = Field(description="Where in the document it is.")
    param: _Param = Field(default="cursor", description="The parameter.")

    @property
    def reads_json(self) -> bool:
        return True

    def after(self, url: str, page: Page) -> str | None:
        cursor = _said(page, self.path)
        return with_params(url, {self.param: cursor}) if cursor else None


class PageNumber(_Paging):
    """Pages are counted; the last one is empty."""

    type: Literal["page_number"] = Field(description="Pages are numbered, until one is empty.")
    param: _Param = Field(default="page", description="The parameter.")
    first_page: int = Field(default=1, ge=0, description="Number of the first page.")

    def first(self, url: str) -> str:
        return with_params(url, {self.param: self.first_page})

    def after(self, url: str, page: Page) -> str | None:
        number = self.first_page + page.number
        return with_params(url, {self.param: number}) if page.records else None


class Offset(_Paging):
    """Records are counted; behind the last one there is an empty page."""

    type: Literal["offset"] = Field(description="Records are counted, until a page is empty.")
    offset_param: _Param = Field(default="offset", description="The parameter.")
    limit_param: _Param = Field(default="limit", description="How many records a page has.")
    limit: int = Field(ge=1, le=1_000_000, description="So many are asked for.")

    def first(self, url: str) -> str:
        return with_params(url, {self.offset_param: 0, self.limit_param: self.limit})

    def after(self, url: str, page: Page) -> str | None:
        # By what came: a server may give fewer than it was asked for, long before the end.
        given = {self.offset_param: page.records_so_far, self.limit_param: self.limit}
        return with_params(url, given) if page.records else None


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


def _said(page: Page, path: str) -> str | None:
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
    return str(value)
