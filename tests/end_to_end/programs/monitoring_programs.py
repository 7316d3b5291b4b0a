"""Debian's Prometheus and Alertmanager, and a mail server, with the samples of docs/monitoring made quick."""

from __future__ import annotations

import json
import mailbox
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from msgspec import Struct

from kraft.local.cluster_files import HOST

SAMPLES: Final = Path(__file__).parents[3] / "docs" / "monitoring"
PROGRAMS: Final = ("prometheus", "prometheus-alertmanager")
DEADLINE_S: Final = 30

_FOR: Final = re.compile(r"\bfor: \d+[sm]")
_GROUP_TIME: Final = re.compile(r"(group_wait|group_interval): \d+[sm]")


def are_missing() -> bool:
    return any(shutil.which(each) is None for each in PROGRAMS)


class Sample(Struct, frozen=True, kw_only=True):
    """One series of a query's result."""

    labels: Mapping[str, str]
    """The name of the series is the label `__name__`."""
    value: float


class Prometheus:
    def __init__(self, port: int) -> None:
        self._port = port

    def query(self, expression: str) -> list[Sample]:
        """Return what the expression has now; nothing while Prometheus starts."""
        body = urlencode({"query": expression}).encode()
        try:
            with urlopen(f"http://{HOST}:{self._port}/api/v1/query", body, DEADLINE_S) as response:
                found = json.load(response)["data"]["result"]
        except URLError as error:
            if isinstance(error.reason, ConnectionRefusedError) or getattr(error, "code", 0) == 503:
                return []
            raise
        return [Sample(labels=each["metric"], value=float(each["value"][1])) for each in found]


class Mail(Struct, frozen=True, kw_only=True):
    to: str
    subject: str
    body: str


class Mails:
    """What the mail server was given, as it lies in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self) -> list[Mail]:
        """Return all mails, in no order."""
        # One process writes and another one reads: each mail appears whole, by a rename.
        found = mailbox.Maildir(self._directory, create=False) if self._directory.exists() else ()
        return [_read(message_from_bytes(bytes(each), policy=policy.default)) for each in found]


def _read(message: EmailMessage) -> Mail:
    # All of it: what people read is not to depend on which part their program shows.
    parts = [part.get_content() for part in message.walk() if not part.is_multipart()]
    return Mail(to=str(message["To"]), subject=str(message["Subject"]), body="\n".join(parts))


@contextmanager
def monitoring(directory: Path, nodes: Sequence[int], ports: Sequence[int]) -> Iterator[tuple[Prometheus, Mails]]:
    """Run the three programs: Prometheus scrapes the nodes whose metrics have these ports, each second."""
    prometheus, alertmanager, mail = ports
    _write_samples(directory, nodes, alertmanager, mail)
    box = directory / "mails"
    with ExitStack() as programs:
        for name, command in (
            ("mail", _mail_server(box, mail)),
            ("alertmanager", _alertmanager(directory, alertmanager)),
            ("prometheus", _prometheus(directory, prometheus)),
        ):
            programs.enter_context(_running(command, directory / f"{name}.log"))
        yield Prometheus(prometheus), Mails(box)


def _mail_server(box: Path, port: int) -> list[str]:
    return [sys.executable, *f"-m aiosmtpd -n -l {HOST}:{port} -c aiosmtpd.handlers.Mailbox {box}".split()]


def _alertmanager(directory: Path, port: int) -> list[str]:
    files = f"--config.file={directory}/alertmanager.yml --storage.path={directory}/alertmanager"
    # Without an address for others of its kind.
    return [
        "prometheus-alertmanager",
        *files.split(),
        f"--web.listen-address={HOST}:{port}",
        "--cluster.listen-address=",
    ]


def _prometheus(directory: Path, port: int) -> list[str]:
    files = f"--config.file={directory}/prometheus.yml --storage.tsdb.path={directory}/series"
    return ["prometheus", *files.split(), f"--web.listen-address={HOST}:{port}"]


@contextmanager
def _running(command: Sequence[str], output: Path) -> Iterator[None]:
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield
        except BaseException as error:
            error.add_note(f"--- the end of {output.name}\n{output.read_text()[-2_000:]}")
            raise
        finally:
            process.kill()


def _write_samples(directory: Path, nodes: Sequence[int], alertmanager: int, mail: int) -> None:
    addresses = [f"{HOST}:{port}" for port in nodes]
    prometheus = _replaced(
        (SAMPLES / "prometheus.yml").read_text(),
        {
            "interval: 15s": "interval: 1s",
            '["broker-1.example:9404", "broker-2.example:9404", "broker-3.example:9404"]': json.dumps(addresses),
            "alertmanager.example:9093": f"{HOST}:{alertmanager}",
        },
    )
    mails = _replaced(
        _GROUP_TIME.sub(r"\1: 1s", (SAMPLES / "alertmanager.yml").read_text()),
        # No certificate on this machine.
        {"mail.example:25": f"{HOST}:{mail}", "smtp_require_tls: true": "smtp_require_tls: false"},
    )
    (directory / "prometheus.yml").write_text(prometheus)
    (directory / "alertmanager.yml").write_text(mails)
    (directory / "alerts.yml").write_text(_FOR.sub("for: 1s", (SAMPLES / "alerts.yml").read_text()))
    shutil.copy(SAMPLES / "dashboards.yml", directory)


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    for old, new in replacements.items():
        assert old in text, f"the sample has no {old} any more"
        text = text.replace(old, new)
    return text
