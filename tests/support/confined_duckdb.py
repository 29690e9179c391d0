"""DuckDB without gate and lock in a confined process: `python -I FILE CONFINED GROUND`.

Reads statements from its input, a JSON string per line; answers each with a line of JSON: all that
came of it, rows or error, as text. Every statement has a database of its own, which may do
everything, and is only spared the long attempts to download what nobody asked for.
"""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace

from trace_platform.confinement import confine

_TIMEOUT_S = 1.0


def main() -> None:
    how, ground_json = sys.argv[1:]
    ground = SimpleNamespace(**json.loads(ground_json))
    if how == "confined":
        confine.confine(ground.readable, ground.scratch)
        confine.limit_files(8)
    import duckdb

    confine.limit_memory(1024)
    config = {
        "threads": 2,
        "memory_limit": "256MB",
        "temp_directory": ground.scratch,
        "home_directory": ground.scratch,
        "extension_directory": f"{ground.scratch}/extensions",
        "allow_unsigned_extensions": True,
        "autoinstall_known_extensions": False,
    }
    for line in sys.stdin:
        with duckdb.connect(config=config) as database:
            database.execute(f"CREATE VIEW blocks AS FROM read_parquet('{ground.file}')")
            alarm = threading.Timer(_TIMEOUT_S, database.interrupt)
            alarm.start()
            outcome = []
            try:
                for statement in database.extract_statements(json.loads(line)):
                    database.execute(statement)
                    outcome.append(str(database.fetchmany(1_000)))
            except Exception as error:
                outcome.append(f"{type(error).__name__}: {error}")
            finally:
                alarm.cancel()
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
