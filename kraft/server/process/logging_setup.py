"""Log output of a node: one event per line, with its facts as fields, on standard error and, if set, in `log.file`.

The lines are JSON for programs; on a terminal, coloured columns for people. Events of libraries that use the standard
logging module have the same format.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from kraft.model.printable import printable
from kraft.server.config.components import LoggingSettings
from kraft.server.process.log_file import LogFile

_WITH_LINES = ("exception", "stack")

# Their messages are about their internals; ours are about the cluster.
_LIBRARIES = ("asyncio", "grpc", "pysyncobj")


def configure(
    settings: LoggingSettings, stream: TextIO | None = None, json_lines: bool | None = None, *, node: int | None = None
) -> None:
    """Set up logging once, before the first event. By default the format depends on whether `stream` is a terminal.

    The level is for our own events; libraries log from WARNING on, and everything at DEBUG. `node` is the id that
    every event gets: for a process that shares standard error with others. Raises ConfigError when `log.file` cannot
    be written to.
    """
    stream = stream if stream is not None else sys.stderr
    as_json = json_lines if json_lines is not None else not stream.isatty()
    level = logging.getLevelNamesMapping()[settings.level]
    handlers = [_rendering(logging.StreamHandler(stream), _json_renderer() if as_json else _console_renderer())]
    if settings.file is not None:
        handlers.append(_rendering(LogFile(settings, stream), _json_renderer()))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_common(),
            *_naming(node),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        # Each module has a logger of its name, whose level may be changed later.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    _route_standard_logging(level, handlers)


def _common() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _naming(node: int | None) -> list[Processor]:
    """Return the processor that adds the id of the node, if there is one to add."""

    def name(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.setdefault("node", node)
        return event

    return [] if node is None else [name]


def _json_renderer() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        _timestamp_level_event_first,
        structlog.processors.JSONRenderer(default=_as_text, ensure_ascii=False),
        _json_printable,
    ]


def _console_renderer() -> list[Processor]:
    return [
        _fields_printable,
        structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback),
    ]


def _json_printable(_logger: WrappedLogger, _method: str, line: Any) -> str:
    """Return the line with escapes of JSON for what a terminal would act on, and JSON leaves as it is."""
    return line if line.isprintable() else "".join(map(_json_escape, line))


def _json_escape(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _fields_printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Return the event with printable texts. That of an exception has lines, and none of a stranger's."""
    return {
        name: printable(value) if isinstance(value, str) and name not in _WITH_LINES else value
        for name, value in event.items()
    }


def _timestamp_level_event_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Return the event with these fields first: people read JSON lines, too."""
    first = {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event}
    return first | dict(event)


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _rendering(handler: logging.Handler, renderer: list[Processor]) -> logging.Handler:
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_common(), structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    return handler


def _route_standard_logging(level: int, handlers: list[logging.Handler]) -> None:
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(level)
    if level > logging.DEBUG:
        for handler in handlers:
            handler.addFilter(_is_not_of_disconnected_caller)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
    logging.captureWarnings(True)


def _is_not_of_disconnected_caller(record: logging.LogRecord) -> bool:
    """Return False for the error that gRPC logs if a caller disconnects before its response: no node is at fault.

    The class of the error cannot be imported from a public module.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (record.name.startswith("grpc.") and type(error).__name__ == "ExecuteBatchError")
