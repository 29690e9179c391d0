"""What a job says of the endpoint that it asks, and of the rows that it wants of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from trace_platform.domain.private_url import is_private
from trace_platform.operators.contract import OperatorConfig
from trace_platform.operators.files.columns import arrow_type, known_type
from trace_platform.operators.http.paging import Paging
from trace_platform.wire.check_spec import ColumnName
from trace_platform.wire.manifest import ManifestColumn

_SECRET_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")
# Whose values are seldom anything but secrets. A parameter `token` is often the address of one.
_SECRETS = re.compile(
    r"(?i)^((x-)?api[-_]?key|access[-_]?(key|token)|(client[-_]?)?secret|password|authorization"
    r"|proxy-authorization|cookie|x-[a-z-]*(key|token|secret))$"
)
# Headers that say how an answer is told and whether it is another one: these are ours to send.
_OURS = frozenset({"accept-encoding", "host", "if-none-match", "if-modified-since", "range"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REJECTED = (("page", "int64"), ("record", "int64"), ("reason", "string"), ("row", "string"))


def _secret(value: object) -> object:
    # Whoever writes a secret here shall not find it in a message.
    if not isinstance(value, str) or not _SECRET_NAME.fullmatch(value):
        raise ValueError("name a secret here, never write its value: trace secrets set NAME")
    return value


SecretName = Annotated[
    str, BeforeValidator(_secret), Field(description="Name of the secret: trace secrets set NAME.")
]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Auth(_Said):
    """How the secret is sent."""

    type: Literal["bearer", "api_key", "basic"] = Field(
        description="bearer: `Authorization: Bearer ...`; api_key: a header or parameter of your "
        "own; basic: a user and a password."
    )
    secret: SecretName
    name: str | None = Field(
        default=None, max_length=128, description="Of an api_key: the header or the parameter."
    )
    location: Literal["header", "query"] = Field(
        default="header", description="Of an api_key: where it is sent."
    )
    username: str | None = Field(default=None, max_length=256, description="Of basic.")

    @model_validator(mode="after")
    def _is_whole(self) -> Auth:
        if (self.type == "api_key") != (self.name is not None):
            raise ValueError("type: api_key needs a name, such as X-Api-Key, and no other has one")
        if (self.type == "basic") != (self.username is not None):
            raise ValueError("type: basic needs a username, and no other has one")
        if self.location == "query" and self.type != "api_key":
            raise ValueError("only an api_key is sent in the query")
        if self.name and self.location == "header" and not _HEADER.fullmatch(self.name):
            raise ValueError("the name is no header's")
        return self


class SchemaContract(_Said):
    """What becomes of a record that is not as the columns say."""

    columns: Literal["evolve", "freeze", "discard_row", "discard_value"] = Field(
        default="discard_value",
        description="A field that is no column. evolve: it becomes one; freeze: the task fails; "
        "discard_row: the record is rejected; discard_value: the field is left out.",
    )
    data_type: Literal["freeze", "discard_row", "discard_value"] = Field(
        default="discard_row",
        description="A value that is not of its column's type. freeze: the task fails; "
        "discard_row: the record is rejected; discard_value: it becomes null.",
    )


class GraphQL(_Said):
    """A question of GraphQL: posted, and its paging is in its variables."""

    query: str = Field(min_length=1, max_length=20_000, description="The question.")
    variables: dict[str, JsonValue] = Field(default={}, description="Its variables.")

    @field_validator("variables")
    @classmethod
    def _are_no_secrets(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        _refuse_secrets(value)
        return value


_Given = TypeVar("_Given")
Scalar = bool | int | float | Annotated[str, Field(max_length=4_000)]


class Config(OperatorConfig):
    url: str = Field(max_length=4_000, description="Where it is asked, without a secret in it.")
    params: dict[str, Scalar] = Field(
        default={}, max_length=100, description="Parameters of the query."
    )
    headers: dict[str, Annotated[str, Field(max_length=4_000)]] = Field(
        default={}, max_length=50, description="Headers. A secret belongs into `auth`."
    )
    body: dict[str, JsonValue] | None = Field(
        default=None,
        description="A document of JSON that is posted; parameters of paging stand in it. Unless "
        "given the endpoint is asked with GET.",
    )
    graphql: GraphQL | None = Field(
        default=None,
        description="A question of GraphQL, in the place of a body; parameters of paging are its "
        "variables.",
    )
    auth: Auth | None = Field(default=None, description="The secret that opens it, by its name.")
    format: Literal["json", "jsonl", "csv"] = Field(
        default="json",
        description="json: one document; jsonl: an object in each line; csv: its first line has "
        "the names.",
    )
    records: str = Field(
        default="",
        max_length=500,
        description="Where in a JSON document the list of records is: data.items. Unless given it "
        "is the document itself.",
    )
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="Of CSV.")
    types: dict[ColumnName, str] = Field(
        min_length=1, max_length=2_000, description="The columns, by name: a type each."
    )
    paths: dict[ColumnName, Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default={},
        max_length=2_000,
        description="Where in a record the value of a column is, when not under its own name: "
        "quote.usd.price. Of CSV: the name in the first line.",
    )
    optional: list[ColumnName] = Field(
        default=[],
        max_length=2_000,
        description="Columns that may be missing in every record. Of the others, one that no "
        "record has fails the task.",
    )
    schema_contract: SchemaContract = Field(
        default=SchemaContract(), description="What becomes of records that do not fit."
    )
    paging: Paging | None = Field(
        default=None, description="How the next page is found. Without it there is one."
    )
    max_pages: int = Field(
        default=1_000, ge=1, le=100_000, description="Of more pages the task fails."
    )
    max_mb: int = Field(
        default=64, ge=1, le=1_024, description="Of a larger answer, all pages, the task fails."
    )
    requests_per_second: float | None = Field(
        default=None, gt=0, le=10_000, description="It asks no more often; no limit unless given."
    )
    timeout_s: float = Field(
        default=30, gt=0, le=3_600, description="For so long the endpoint may be silent."
    )
    allow_http: bool = Field(
        default=False,
        description="Ask over http:// on another machine, where others can read along.",
    )

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, said in value.items():
            if not _HEADER.fullmatch(name) or re.search(r"[^\t -~]", said):
                raise ValueError(f"{name!r} is no header of printable ASCII")
            if name.lower() in _OURS:
                raise ValueError(f"{name} is sent by the operator itself")
        return _without_secrets(value)

    @field_validator("params")
    @classmethod
    def _are_no_secrets(cls, value: dict[str, Scalar]) -> dict[str, Scalar]:
        return _without_secrets(value)

    @field_validator("body")
    @classmethod
    def _holds_no_secret(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        _refuse_secrets(value)
        return value

    @field_validator("types")
    @classmethod
    def _are_known(cls, value: dict[str, str]) -> dict[str, str]:
        for declared in value.values():
            known_type(declared)
        if len({name.lower() for name in value}) < len(value):
            raise ValueError("two columns differ in case alone")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        _check_url(self.url, self.allow_http)
        if self.body is not None and self.graphql is not None:
            raise ValueError("give either body or graphql: each is what is posted")
        if self.graphql is not None and self.format != "json":
            raise ValueError(f"GraphQL answers in json, and the format is {self.format}")
        for field in ("paths", "optional"):
            if unknown := [name for name in getattr(self, field) if name not in self.types]:
                raise ValueError(f"{field} names {unknown[0]}, which is no column in types")
        if self.format != "json" and (self.records or (self.paging and self.paging.reads_json)):
            raise ValueError(
                f"records and paths of pages are of json, and the format is {self.format}"
            )
        return self

    @property
    def posts(self) -> bool:
        return self.body is not None or self.graphql is not None

    def columns(self) -> Sequence[Sequence[ManifestColumn]] | None:
        if self.schema_contract.columns == "evolve":
            return None
        own = [(name, arrow_type(declared)) for name, declared in self.types.items()]
        return [
            [ManifestColumn(name=name, type=kind, nullable=True) for name, kind in each]
            for each in (own, REJECTED)
        ]


def _without_secrets(given: dict[str, _Given]) -> dict[str, _Given]:
    for name in given:
        if _SECRETS.match(name):
            raise ValueError(f"{name} holds a secret: name it in auth, and leave it out here")
    return given


def _refuse_secrets(given: JsonValue) -> None:
    if isinstance(given, dict):
        given = list(_without_secrets(given).values())
    for each in given if isinstance(given, list) else ():
        _refuse_secrets(each)


def _check_url(url: str, allow_http: bool) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        raise ValueError("url is no address: write https://HOST/PATH") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[^!-~]", url):
        raise ValueError("url is no address: write https://HOST/PATH")
    if parts.username is not None or parts.fragment:
        raise ValueError("url has a user or a fragment: a secret belongs into auth")
    if not is_private(url) and not allow_http:
        raise ValueError(
            "others can read along what is asked over http:// on another machine: write https://, "
            "or allow_http: true"
        )
