"""What a config may call a column of a statement."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
