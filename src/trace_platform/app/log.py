"""Logs are JSON lines: who, when, how bad, what, and no secrets."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

MASK = "***"
_SECRET_NAMES = {"token", "password", "passwd", "dsn", "authorization", "secret", "private_key"}
_SECRET_ENDINGS = tuple(f"_{name}" for name in sorted(_SECRET_NAMES))
# Secrets inside of texts, such as the message of an error.
_SECRET_TEXTS = (
    (
        re.compile(r"(?i)\b(password|passwd|pgpassword)(\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^\s,;&]+)"),
        2,
    ),
    (re.compile(r"(?i)\b(bearer)(\s+)[A-Za-z0-9._~+/=-]+"), 2),
    (re.compile(r"(://[^\s:/@]*)(:)[^\s@/]+(?=@)"), 2),
)
# Loud at INFO, and of no use there.
_QUIET = ("uvicorn.access", "httpx", "httpcore", "py4j", "asyncio", "psycopg.pool")


def configure_logging(process: str, stream: TextIO | None = None, level: str = "INFO") -> None:
    """Send structlog and the standard library's logging to `stream` as JSON, one object a line."""

    def name_process(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event.setdefault("process", process)
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_process,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(_formatter(shared))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _log_unexpected
    threading.excepthook = _log_unexpected_in_thread


def _formatter(shared: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _drop_colours,
            mask_secrets,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ],
    )


def _drop_colours(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn repeats its message for terminals
    return event


def mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace what a secret's name or its shape gives away."""
    return {key: _masked(key, value) for key, value in event.items()}


def _masked(key: object, value: Any) -> Any:
    if _is_secret(key) and value is not None:
        return MASK
    if isinstance(value, Mapping):
        return {str(name): _masked(name, inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(None, inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return mask_text(str(value))


def mask_text(text: str) -> str:
    for pattern, kept in _SECRET_TEXTS:
        text = pattern.sub("".join(rf"\{n}" for n in range(1, kept + 1)) + MASK, text)
    return text


def _is_secret(key: object) -> bool:
    name = str(key).lower().replace("-", "_")
    return name in _SECRET_NAMES or name.endswith(_SECRET_ENDINGS)


def rotate(path: Path, max_bytes: int = 20_000_000, keep: int = 3) -> None:
    """Move a log that grew large aside: NAME.jsonl.1 is the newest of the old ones."""
    if not path.exists() or path.stat().st_size < max_bytes:
        return
    for number in range(keep, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        if newer.exists():
            newer.replace(older)


def _log_unexpected_in_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        _log_unexpected(given.exc_type, given.exc_value, given.exc_traceback)


def _log_unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logger = structlog.get_logger("trace_platform")
    logger.critical("unexpected_error", exc_info=(kind, error, trace))
