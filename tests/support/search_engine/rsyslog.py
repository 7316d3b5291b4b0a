"""A real rsyslog that sends lines to a topic through omkafka, its module over librdkafka."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.waiting import until

_STOP_S: Final = 30.0
MODULE: Final = "omkafka.so"
_MODULES: Final = tuple(Path("/usr/lib").glob(f"*/rsyslog/{MODULE}"))

_CONFIG: Final = """
global(workDirectory="{directory}" maxMessageSize="64k")
module(load="omkafka")
module(load="imuxsock" SysSock.Use="off")
# Bursts are no mistake here.
input(type="imuxsock" Socket="{socket}" RateLimit.Interval="0" CreatePath="on" UseSpecialParser="on")
template(name="document" type="list" option.jsonf="on") {{
  property(outname="@timestamp" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="level" name="syslogseverity-text" format="jsonf")
  property(outname="logger" name="programname" format="jsonf")
  property(outname="message" name="msg" position.from="2" format="jsonf")
}}
action(
  type="omkafka" topic="{topic}" broker=[{brokers}] template="document"
  confParam=["compression.codec=lz4", "queue.buffering.max.ms=50", "enable.idempotence=true"]
  partitions.auto="on" resubmitOnFailure="on" keepFailedMessages="on" failedMsgFile="{directory}/failed"
  queue.type="LinkedList" queue.size="100000" queue.filename="kept" queue.maxDiskSpace="1g" queue.saveOnShutdown="on"
  queue.timeoutEnqueue="600000" queue.timeoutShutdown="20000"
  action.resumeRetryCount="-1"
)
"""


@contextmanager
def rsyslog(directory: Path, kafka_bootstrap_servers: str, topic: str) -> Iterator[Path]:
    """Run it during the block, and yield the socket that it reads. Skips the test where there is none."""
    program = shutil.which("rsyslogd") or shutil.which("rsyslogd", path="/usr/sbin")
    if program is None or not _MODULES:
        pytest.skip("there is no rsyslogd with omkafka: install Debian's rsyslog and rsyslog-kafka")
    directory.mkdir(parents=True, exist_ok=True)
    listening = directory / "log.socket"
    config = directory / "rsyslog.conf"
    brokers = ", ".join(f'"{each}"' for each in kafka_bootstrap_servers.split(","))
    config.write_text(_CONFIG.format(directory=directory, socket=listening, topic=topic, brokers=brokers))
    output = directory / "output"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [program, "-n", "-f", str(config), "-i", str(directory / "pid")], stdout=log, stderr=log
        )
    try:
        until(listening.exists, lambda: f"rsyslogd has not started: {output.read_text()}")
        yield listening
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)


class Syslog:
    """The socket of a syslog, as `syslog(3)` writes to it: it waits while the daemon is behind."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(600)
        self._socket.connect(str(path))

    def write(self, text: str, program: str = "test") -> None:
        """Write a line, of facility user and severity info."""
        self._socket.send(f"<14>{program}: {text}".encode())

    def close(self) -> None:
        self._socket.close()
