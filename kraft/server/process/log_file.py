"""Log file of a node, beside standard error: renamed when it is full; a bounded number of earlier ones is kept."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from typing import TextIO

from kraft.server.config.components import LoggingSettings
from kraft.server.config.loading import ConfigError


class LogFile(RotatingFileHandler):
    """Handler of `log.file`. A node whose log file cannot be written to goes on, and says so once on standard error."""

    def __init__(self, settings: LoggingSettings, standard_error: TextIO) -> None:
        """Raises ConfigError."""
        assert settings.file is not None
        self._standard_error = standard_error
        self._problem = ""
        try:
            settings.file.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(
                settings.file,
                maxBytes=settings.file_bytes_max,
                backupCount=settings.file_backups_max,
                encoding="utf-8",
                errors="backslashreplace",
            )
        except OSError as error:
            reason = f"cannot be written to: {error.strerror}: choose another file"
            raise ConfigError(f"log.file={settings.file}: {reason}") from None

    def emit(self, record: logging.LogRecord) -> None:
        failed_before, self._problem = self._problem, ""
        super().emit(record)
        if self._problem and not failed_before:
            text = f"kraft: log.file cannot be written to, standard error only from now on: {self._problem}"
            print(text, file=self._standard_error, flush=True)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Called in the except block of `emit`, which would otherwise print a traceback for each event."""
        self._problem = str(sys.exc_info()[1])
