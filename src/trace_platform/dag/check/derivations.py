"""What the columns of a job's outputs are made of, by the inputs of the job.

A statement says it in its own words, an operator in those of its contract. Here both become the
same: an origin is the number of an input and a column of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from trace_platform.dag.check.names import Names
from trace_platform.dag.model.dag import DatasetRef, Job, JobOutputRef
from trace_platform.domain.digest import digest
from trace_platform.operators.facts import Judged
from trace_platform.operators.statement import Folded
from trace_platform.sql.derivation import Derivation, DerivedColumn, Origin
from trace_platform.sql.relations import Column
from trace_platform.wire.query_columns import query_columns

# Of a config: what the meaning of columns says already.
SAID_BY_SQL = frozenset({"sql", "steps", "outputs", "params", "fold"})


def key_of(source: JobOutputRef | DatasetRef, names: Names) -> str:
    """What is read, whatever a statement calls it: the same in two versions of a DAG."""
    if isinstance(source, DatasetRef):
        publish = names.dag.publish.get(source.dataset)
        if publish is None or publish.storage == "buffered" or len(publish.sources) != 1:
            return source.dataset
        source = publish.sources[0]
    job, index = names.output(source)
    return f"{job}.{index}"


def by_input(found: Derivation, job: Job, keys: Sequence[str]) -> Derivation:
    """Of a statement over what these keys name. What else of the job decides its rows is part of
    their meaning."""
    numbers: dict[str, str] = {}
    for number, key in enumerate(keys):
        numbers.setdefault(key, str(number))

    def placed(origins: Sequence[Origin]) -> list[Origin]:
        return sorted(Origin(numbers[each.source], each.column) for each in origins)

    return Derivation(
        columns=[structs.replace(each, origins=placed(each.origins)) for each in found.columns],
        rows_from=placed(found.rows_from),
        rows_meaning=digest([found.rows_meaning, _besides(job, SAID_BY_SQL), _filters(job, keys)]),
    )


def folded(found: Derivation, by: Sequence[str], values: Mapping[str, Folded]) -> Derivation | None:
    """Of the rows that a fold keeps of these: its key, and what is added up for each."""
    made = {column.name: column for column in found.columns}
    needed = {each.column for each in values.values() if each.column is not None}
    if not made.keys() >= {name.lower() for name in (*by, *needed)}:
        return None
    keys = [structs.replace(made[name.lower()], name=name) for name in by]
    columns = [
        DerivedColumn(
            name=name,
            origins=made[each.column.lower()].origins if each.column else [],
            meaning=digest([each.call, made[each.column.lower()].meaning if each.column else ""]),
        )
        for name, each in values.items()
    ]
    return Derivation(
        columns=[*keys, *columns],
        rows_from=sorted({*found.rows_from, *(o for key in keys for o in key.origins)}),
        rows_meaning=digest([found.rows_meaning, [key.meaning for key in keys]]),
    )


def of_operator(
    job: Job, judged: Judged, keys: Sequence[str], read: Sequence[Sequence[Column] | None]
) -> Iterator[tuple[int, Derivation]]:
    """By output. `read` are the columns of each input, as far as they are known."""
    if judged.keeps_columns:
        kept = [n for n, edge in enumerate(job.inputs) if not edge.trigger]
        for output, number in enumerate(kept[: len(job.outputs)]):
            columns = read[number]
            if columns is not None:
                made = {column.name: [column.name] for column in columns}
                types = {column.name: column.type for column in columns}
                yield output, by_column(job, keys, number, made, types)
    elif judged.made_of is not None and judged.columns is not None and keys:
        # An operator of one's own may say more, or less, of the one than of the other.
        pairs = zip(judged.made_of, judged.columns, strict=False)
        for output, (made_of, columns_of) in enumerate(pairs):
            known = query_columns(columns_of) or ()
            yield output, by_column(job, keys, 0, made_of, {each.name: each.type for each in known})


def by_column(
    job: Job,
    keys: Sequence[str],
    number: int,
    made_of: Mapping[str, Sequence[str]],
    types: Mapping[str, str],
) -> Derivation:
    """Of an output whose columns are computed from one input, as `made_of` says of each."""
    columns = [
        DerivedColumn(
            name=name,
            type=types.get(name, ""),
            origins=sorted(Origin(str(number), each) for each in origins),
            meaning=digest([job.operator, name, [f"{keys[number]}.{each}" for each in origins]]),
        )
        for name, origins in made_of.items()
    ]
    return Derivation(
        columns=columns, rows_meaning=digest([_besides(job, frozenset()), _filters(job, keys)])
    )


def _besides(job: Job, said: frozenset[str]) -> dict[str, Any]:
    config = {name: value for name, value in (job.config or {}).items() if name not in said}
    return {"operator": job.operator, "config": config}


def _filters(job: Job, keys: Sequence[str]) -> list[str]:
    """Which rows of what is read count."""
    return sorted(digest([key, edge.where]) for key, edge in zip(keys, job.inputs, strict=True))
