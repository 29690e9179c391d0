"""`address_labels`: names of addresses, from CSV files that people keep, as a dataset to join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, field_validator

from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.files.dropped import folder_uri
from trace_platform.operators.files.file_ingest import FileConfig, FileIngest
from trace_platform.wire.manifest import ManifestColumn

# Who has an address on which chain, what kind of thing that is, and who says so.
COLUMNS = {
    "chain_id": "int64",
    "address": "binary(20)",
    "label": "string",
    "category": "string",
    "source": "string",
}


class Config(OperatorConfig):
    folder: str = Field(min_length=1, description="The folder of the file_watch before it.")

    @field_validator("folder")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        return folder_uri(value)

    def columns(self) -> Sequence[Sequence[ManifestColumn]]:
        return _whole(self.folder).columns()


class AddressLabels(FileIngest):
    name: ClassVar[str] = "address_labels"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("labels", "rejected")

    def run(self, task: TaskContext) -> Result:
        return self.ingest(task, _whole(task.config.folder))


def _whole(folder: str) -> FileConfig:
    return FileConfig(folder=folder, format="csv", types=COLUMNS, other_columns="ignore")
