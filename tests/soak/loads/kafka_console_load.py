"""Java's console producer, idempotent as it is by default, fed with 0, 1, 2, ... on its standard input.

It reports no acknowledgements, only at its end the records that it could not send; so its records count if it succeeds.
"""

from __future__ import annotations

import subprocess
from tempfile import TemporaryFile
from typing import Any, Final

from tests.support.kafka.kafka_jars import kafka_jars
from tests.support.working_thread import WorkingThread

_DEADLINE_S: Final = 120.0
_PAUSE_S: Final = 0.005
_ARGUMENTS: Final = (
    # Its default is three tries of a second and a half each.
    *("--message-send-max-retries", "2147483647"),
    *("--request-timeout-ms", "30000"),
    *("--max-block-ms", "120000"),
    *("--timeout", "1"),
)


class ConsoleLoad(WorkingThread):
    """A context manager."""

    client = "Java"

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__("console load", _DEADLINE_S)
        self.sent = 0
        self._errors = TemporaryFile()  # noqa: SIM115  `__exit__` closes it.
        self._process = subprocess.Popen(
            [
                *("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
                *("-cp", f"{kafka_jars()}/*", "org.apache.kafka.tools.ConsoleProducer"),
                *("--bootstrap-server", servers, "--topic", topic, *_ARGUMENTS),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def stop(self) -> None:
        """Stop sending; return once it has ended, and so has sent everything. Raises AssertionError."""
        self._stopping.set()
        self._thread.join(_DEADLINE_S)
        code = self._process.wait(_DEADLINE_S)
        self._errors.seek(0)
        errors = self._errors.read().decode("utf-8", "replace")
        assert (code, errors) == (0, ""), f"Java's console producer ended with {code}: {errors[:2_000]}"

    def _work(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None, "asked for"
        with pipe:
            while not self._stopping.wait(_PAUSE_S):
                pipe.write(b"%d\n" % self.sent)
                pipe.flush()
                self.sent += 1

    def __exit__(self, *raised: Any) -> None:
        # The thread may wait in a write to the pipe, which ends with the process.
        self._stopping.set()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_DEADLINE_S)
        super().__exit__(*raised)
        self._errors.close()
