"""Records as rows of declared columns, and what becomes of those that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_platform.domain.alike import meant
from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.domain.figures import count
from trace_platform.operators.http.config import Config
from trace_platform.operators.http.json_path import MISSING, found_at
from trace_platform.operators.http.values import Misfit, as_json, fit_of, inferred, storable

_MOST_NEW = 200
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that is no row, as a row of the output `rejected`."""

    page: int
    record: int
    reason: str
    row: str


@dataclass(slots=True)
class Rows:
    """Of one page: the values of each column, and the records that are no rows."""

    columns: dict[str, list[Any]]
    count: int = 0
    rejected: list[Reject] = field(default_factory=list)


class _Discarded(Exception):
    """The record is no row; the text says why."""


class Contract:
    """What the config says of the records of one answer. `evolved` are the columns that earlier
    answers brought, with their types."""

    def __init__(self, config: Config, evolved: Mapping[str, str]) -> None:
        self._config = config
        self._rule = config.schema_contract
        self.evolved = dict(evolved)
        self._fields = {self._field(name) for name in config.types}
        self._seen: set[str] = set()
        self._left_out: set[str] = set()
        # Of all pages.
        self._records = self._kept = 0
        self._first_reject: Reject | None = None

    @property
    def types(self) -> dict[str, str]:
        return self._config.types | self.evolved

    def learn(self, pages: Iterable[Sequence[Any]]) -> None:
        """Make columns of the fields that are none yet. Raise IncompatibleSchema where they cannot
        be any."""
        values: dict[str, list[Any]] = {}
        for record in (each for page in pages for each in page if isinstance(each, dict)):
            for name, value in self._unknown(record).items():
                # Null alone says nothing of a type: it waits for a value.
                if value is not None:
                    values.setdefault(name, []).append(value)
        new = {name: inferred(told) for name, told in values.items() if name not in self.evolved}
        for name in new:
            self._refuse_double(name)
            self.evolved[name] = new[name]
        if len(self.evolved) > _MOST_NEW:
            raise IncompatibleSchema(
                f"the answers brought {len(self.evolved):,} columns that are not declared, at most "
                f"{_MOST_NEW} may come",
                hint="declare what you need, and leave the rest out: "
                "schema_contract: { columns: discard_value }",
            )

    def rows(self, records: Sequence[Any], page: int) -> Rows:
        """Raise IncompatibleSchema for what the contract freezes."""
        fits = {name: fit_of(kind) for name, kind in self.types.items()}
        found = Rows({name: [] for name in fits})
        for number, record in enumerate(records, start=1):
            place = _Place(page, number)
            try:
                row = self._row(record, place, fits)
            except _Discarded as why:
                found.rejected.append(Reject(page, number, storable(str(why)), _shown(record)))
                continue
            found.count += 1
            for name, values in found.columns.items():
                values.append(row[name])
        self._records += len(records)
        self._kept += found.count
        self._first_reject = self._first_reject or next(iter(found.rejected), None)
        return found

    def judge(self) -> None:
        """Of the whole answer: raise IncompatibleSchema when it has taken another shape."""
        first = self._first_reject
        if self._records and not self._kept and first is not None:
            raise IncompatibleSchema(
                f"none of {count(self._records, 'record')} fits: record {first.record} of page "
                f"{first.page}: {first.reason}",
                hint="the rows of before are kept. Look at an answer: has its shape changed?",
                page=first.page,
                record=first.record,
            )
        needed = (name for name in self._config.types if name not in self._config.optional)
        lost = [name for name in needed if name not in self._seen]
        if self._records and lost:
            raise self._lost(lost)

    def _lost(self, names: Sequence[str]) -> IncompatibleSchema:
        told = [f"{name} ({self._config.types[name]})" for name in names[:_MOST_TOLD]]
        path = self._config.paths.get(names[0], names[0])
        near = meant(path, self._left_out)
        return IncompatibleSchema(
            f"none of {count(self._records, 'record')} has the column {', '.join(told)}",
            hint=near
            or f"correct where it is: paths: {{ {names[0]}: ... }}, or let it be missing: "
            f"optional: [{names[0]}]",
            column=names[0],
        )

    def _row(self, record: Any, place: _Place, fits: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise self._misfit("the record is no object", place, self._rule.data_type)
        values = dict(self._declared(record)) | self._told_beyond(record, place)
        row = dict.fromkeys(fits)
        for name, value in values.items():
            try:
                row[name] = fits[name](value)
            except Misfit as why:
                if self._rule.data_type != "discard_value":
                    said = f"column {name} is {why}, not {self.types[name]}"
                    raise self._misfit(said, place, self._rule.data_type, name) from None
        return row

    def _declared(self, record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name in self._config.types:
            path = self._config.paths.get(name)
            if path is None or self._config.format == "csv":
                value = record.get(path or name, MISSING)
            else:
                value = found_at(record, path, MISSING)
            if value is not MISSING:
                self._seen.add(name)
                yield name, value

    def _told_beyond(self, record: Mapping[str, Any], place: _Place) -> dict[str, Any]:
        """The values of columns that are not declared."""
        others = [name for name in record if name not in self._fields]
        if not others or self._rule.columns == "discard_value":
            self._left_out.update(others)
            return {}
        if self._rule.columns == "evolve":
            there = self._unknown(record)
            return {name: value for name, value in there.items() if name in self.evolved}
        said = f"the field {', '.join(others[:_MOST_TOLD])} is no column"
        raise self._misfit(said, place, self._rule.columns)

    def _unknown(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """By the name of the column that each would be."""
        others = [name for name in record if name not in self._fields]
        found = {column_name(name): record[name] for name in others}
        if len(found) < len(others):
            raise IncompatibleSchema(
                f"two of the fields {', '.join(others[:_MOST_TOLD])} would be one column",
                hint="declare them, with their paths",
            )
        return found

    def _field(self, name: str) -> str:
        """The field of a record that a declared column is made of."""
        path = self._config.paths.get(name)
        if path is None or self._config.format == "csv":
            return path or name
        return path.partition(".")[0]

    def _refuse_double(self, name: str) -> None:
        there = [each for each in self.types if each.lower() == name.lower()]
        if there:
            raise IncompatibleSchema(
                f"a field that is not declared would be the column {name}, beside {there[0]}",
                hint="declare both, with their paths",
                column=name,
            )

    def _misfit(
        self, said: str, place: _Place, rule: str, column: str | None = None
    ) -> IncompatibleSchema | _Discarded:
        if rule != "freeze":
            return _Discarded(said)
        return IncompatibleSchema(
            f"record {place.record} of page {place.page}: {said}",
            hint="the rows of before are kept. Declare what comes now, or choose another "
            "schema_contract",
            column=column,
            page=place.page,
            record=place.record,
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """Of a record in an answer, both from 1."""

    page: int
    record: int


def _shown(record: Any) -> str:
    try:
        return as_json(record)
    except Misfit as why:
        return str(why)


def column_name(field_name: str) -> str:
    """The name of a field as one of a column."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", field_name)[:128]
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"
