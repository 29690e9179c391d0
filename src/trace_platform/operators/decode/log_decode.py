"""`log_decode`: logs to rows of the events that they are, an output per event.

What looks like one of the events and is not, to the last byte, is kept in the output `undecoded`
with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from trace_platform.operators.accepts import RANGE, RANGES, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.decode import decode_task
from trace_platform.operators.decode.config import AddressColumn, EventsConfig
from trace_platform.operators.decode.logs import KEPT, MAY_LACK, RAW, EventsByPlace, LogDecoder
from trace_platform.operators.decode.sorted_files import Wanted
from trace_platform.operators.staging import manifest_columns
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.manifest import ManifestColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# As Spark calls the types of the columns that logs have.
_KINDS = {"int64": "long", "binary": "binary"}
_COLUMNS = pa.schema([field.with_nullable(True) for field in (*KEPT, *RAW)])


class Config(EventsConfig):
    def outputs(self) -> tuple[str, ...]:
        return LogDecoder(self.chosen()).outputs

    def columns(self) -> list[list[ManifestColumn]] | None:
        return None if self.stored else self.columns_by(())

    def columns_by(self, abis: Sequence[TaskAbi]) -> list[list[ManifestColumn]]:
        return [manifest_columns(schema) for schema in LogDecoder(self.chosen(), abis).schemas]

    def made_of_by(self, abis: Sequence[TaskAbi]) -> list[dict[str, list[str]]]:
        return LogDecoder(self.chosen(), abis).made_of


class LogDecode:
    name: ClassVar[str] = "log_decode"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = None
    accepts: ClassVar[Accepts] = RANGES
    emits: ClassVar[Updates | None] = RANGE
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        decoder = LogDecoder(
            config.chosen(),
            task.abis,
            chain_id=config.chain_id,
            keeps_unknown=config.addresses is not None,
        )

        def narrow(logs: DataFrame) -> DataFrame:
            kinds = {field.name: _KINDS[str(field.type)] for field in (*KEPT, *RAW)}
            rows = logs.select(*decode_task.with_nulls(logs, MAY_LACK, kinds))
            # All logs of chosen contracts are looked at; of all contracts, those of the events.
            return rows if config.addresses else rows.filter(_may_be(rows, decoder))

        return decode_task.run(task, decoder, decoder.outputs, narrow, _wanted(config, decoder))


def _wanted(config: Config, decoder: LogDecoder) -> Wanted | None:
    """None: the contracts are in a dataset."""
    if isinstance(config.addresses, AddressColumn):
        return None
    listed = config.addresses
    addresses = None if listed is None else [bytes.fromhex(each[2:]) for each in listed]
    anonymous = any(stored.has_anonymous for stored in decoder.by_place)
    topics = [*decoder.topics, *(t for stored in decoder.by_place for t in stored.topics)]
    everything = addresses is not None or anonymous
    return Wanted(_COLUMNS, MAY_LACK, addresses, None if everything else topics)


def _may_be(logs: DataFrame, decoder: LogDecoder) -> Column:
    """Logs of the events: by their first topic; of stored ABIs also by the contract."""
    found = logs["topic0"].isin(decoder.topics)
    for stored in decoder.by_place:
        found = found | _may_be_stored(logs, stored)
    return found


def _may_be_stored(logs: DataFrame, stored: EventsByPlace) -> Column:
    contracts = logs["address"].isin(stored.placed.addresses)
    topics = logs["topic0"].isin(stored.topics)
    if stored.placed.decodes_any:
        # An anonymous event of any contract is any log.
        return topics | (contracts if stored.has_anonymous else topics)
    return contracts if stored.has_anonymous else topics & contracts
