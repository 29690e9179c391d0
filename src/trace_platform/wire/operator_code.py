"""The .py files that come with a DAG file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trace_platform.domain.own_code import MAX_BYTES, MAX_FILES

# Names and sizes together are checked where the DAG is read.
CodeFiles = Annotated[
    dict[
        Annotated[str, Field(max_length=80)],
        Annotated[str, Field(max_length=MAX_BYTES)],
    ],
    Field(max_length=MAX_FILES, description="Python files beside the DAG file, by name."),
]
