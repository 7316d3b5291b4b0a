"""Log file of a node, in addition to standard error: renamed when it is full; some renamed ones are kept."""

from __future__ import annotations

import logging
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import TextIO

from kraft.runtime.disk import make_directories, open_privately
from kraft.server.config.components import LoggingSettings
from kraft.server.config.loading import ConfigError


class LogFile(RotatingFileHandler):
    """Handler of `log.file`. If the file cannot be written to, standard error says so once, and the node continues."""

    def __init__(self, settings: LoggingSettings, standard_error: TextIO) -> None:
        """Open the file. Raises ConfigError."""
        assert settings.file is not None
        self._standard_error = standard_error
        self._problem = ""
        try:
            make_directories(settings.file.parent)
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

    def _open(self) -> TextIOWrapper:
        """Open the file for this user only: events name clients, topics and groups."""
        opened = open(  # noqa: SIM115  The handler closes it.
            self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=open_privately
        )
        assert isinstance(opened, TextIOWrapper), "the handler's mode is one for text"
        return opened

    def emit(self, record: logging.LogRecord) -> None:
        failed_before, self._problem = self._problem, ""
        super().emit(record)
        if self._problem and not failed_before:
            text = f"kraft: log.file cannot be written to, events go to standard error only: {self._problem}"
            print(text, file=self._standard_error, flush=True)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  Named by the base class.
        """Keep the error for `emit`. The method of the base class prints a traceback for each event."""
        self._problem = str(sys.exc_info()[1])
