"""A secret, as the name of the file that holds it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from trace_platform.domain.errors import Unavailable


@dataclass(frozen=True, slots=True)
class SecretFile:
    """What travels to Spark's executors instead of a secret: they read the file when they need it.

    So nothing that Spark keeps or sends holds the secret, and after a rotation the next reader has
    the new one.
    """

    path: str

    def read(self) -> str:
        try:
            secret = Path(self.path).read_text().strip()
        except OSError as error:
            raise self._unavailable(error.strerror or "it cannot be read") from None
        if not secret:
            raise self._unavailable("it is empty")
        return secret

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(
            f"{platform.node()} has no secret in {self.path}: {why}",
            hint="every node of a Spark cluster needs it there, for the user of its executors",
        )
