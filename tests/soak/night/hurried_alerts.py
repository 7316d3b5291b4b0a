"""A real Prometheus with the alerts of docs/monitoring, whose time runs faster.

Every duration of the rules (`for:`, and ranges such as `[5m]`) and the intervals of the sample configuration are
divided by `HURRY`; nothing else of the rules is changed. Thresholds, also those in seconds, stay as they are.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from kraft.local.cluster_files import HOST

PROGRAM: Final = "prometheus"
RULES: Final = Path(__file__).parents[3] / "docs" / "monitoring" / "alerts.yml"
HURRY: Final = 15
"""The sample's interval of 15 s becomes a second."""

SCRAPE_MS: Final = 1_000
SCRAPE_TIMEOUT_MS: Final = 900

_FOR: Final = re.compile(r"(?<=for: )(\d+)([smh])\b")
_RANGE: Final = re.compile(r"(?<=\[)(\d+)([smh])(?=\])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}
_ANSWER_DEADLINE_S: Final = 10.0
_START_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.1


class Alert(Struct, frozen=True, kw_only=True):
    """An alert that fires."""

    labels: dict[str, str]
    annotations: dict[str, str]
    state: str = "firing"

    @property
    def name(self) -> str:
        return self.labels["alertname"]

    def __str__(self) -> str:
        severity = self.labels.get("severity", "")
        lines = [f"{self.name} ({severity}): {self.annotations.get('summary', '')}"]
        lines += [f"  {name}: {text}" for name, text in sorted(self.annotations.items()) if name != "summary"]
        return "\n".join(lines)


def hurried(rules: str) -> str:
    """Return the rules with each of their durations divided by `HURRY`."""

    def shorter(found: re.Match[str]) -> str:
        return f"{int(found[1]) * _UNIT_MS[found[2]] // HURRY}ms"

    return _RANGE.sub(shorter, _FOR.sub(shorter, rules))


class Prometheus:
    """A context manager: one Prometheus that scrapes the nodes and evaluates the alerts. Calls have deadlines."""

    def __init__(self, directory: Path, port: int, metrics_ports: Mapping[str, int]) -> None:
        """`metrics_ports` are the ports of metrics.address, by the names that alerts have for the nodes."""
        self._directory = directory
        self._port = port
        self._metrics_ports = metrics_ports
        self._process: subprocess.Popen[bytes] | None = None

    def firing(self) -> list[Alert]:
        """Return the alerts that fire now, by name."""
        found = self._get("/api/v1/alerts")["data"]["alerts"]
        alerts = [
            Alert(labels=each["labels"], annotations=each["annotations"]) for each in found if each["state"] == "firing"
        ]
        return sorted(alerts, key=lambda each: sorted(each.labels.items()))

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True)
        (self._directory / "alerts.yml").write_text(hurried(RULES.read_text()))
        targets = [
            {"targets": [f"{HOST}:{port}"], "labels": {"instance": name}} for name, port in self._metrics_ports.items()
        ]
        times = {"scrape_interval": f"{SCRAPE_MS}ms", "scrape_timeout": f"{SCRAPE_TIMEOUT_MS}ms"}
        config = {
            "global": {**times, "evaluation_interval": f"{SCRAPE_MS}ms"},
            "rule_files": ["alerts.yml"],
            "scrape_configs": [{"job_name": "kraft", "static_configs": targets}],
        }
        # JSON is YAML.
        (self._directory / "prometheus.yml").write_text(json.dumps(config))
        with (self._directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [
                    PROGRAM,
                    f"--config.file={self._directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    f"--web.listen-address={HOST}:{self._port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._wait_until_it_answers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(_ANSWER_DEADLINE_S)

    def _wait_until_it_answers(self) -> None:
        until_s = time.monotonic() + _START_DEADLINE_S
        while True:
            try:
                self._get("/api/v1/alerts")
            except (OSError, HTTPException, ValueError):
                if time.monotonic() > until_s:
                    raise
                # Prometheus is still starting.
                time.sleep(_POLL_S)
            else:
                return

    def _get(self, path: str) -> Any:
        connection = HTTPConnection(HOST, self._port, timeout=_ANSWER_DEADLINE_S)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()
