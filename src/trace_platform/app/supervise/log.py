"""Logs are JSON lines: who, when, how bad, what, and no secrets."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from trace_platform.domain.masking import masked

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
            _mask_event,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ],
    )


def _drop_colours(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn repeats its message for terminals
    return event


def _mask_event(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return masked(event)


def _log_unexpected_in_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        _log_unexpected(given.exc_type, given.exc_value, given.exc_traceback)


def _log_unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    log = structlog.get_logger("trace_platform")
    log.critical("unexpected_error", exc_info=(kind, error, trace))
