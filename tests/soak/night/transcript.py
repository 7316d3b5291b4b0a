"""What an operator sees of a fault: alerts, commands, probes and log lines, in one text that does not name it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.local.cluster_files import HOST
from kraft.testing import NodeProcess
from tests.soak.night.hurried_alerts import Alert
from tests.soak.night.world import Night
from tests.support.command_line import run

LOOK_AFTER_S: Final = 75.0
"""An operator is paged, gets up and finds the laptop. Followers leave ISRs 30 s after they fell behind."""

LOOK_BEFORE_S: Final = 180.0
QUIET_S: Final = 25.0
"""No alert began or ended for so long, before the look."""

LINES_MAX: Final = 40
"""Log lines of one node that are shown; the first and the last of more."""

CLUSTER_HEALTH: Final = "kraft cluster health"

_ALARMING: Final = ("warning", "error", "critical")
_PROBE_DEADLINE_S: Final = 5.0
_POLL_S: Final = 1.0


class Sight(Struct, frozen=True, kw_only=True):
    """What is seen at one moment."""

    alerts: list[Alert]
    commands: dict[str, tuple[int, str]]
    """Exit code and output, by what was typed."""

    probes: dict[str, str]
    logs: dict[str, list[str]]
    """Lines at WARN and above since the fault, by node."""

    after_s: float


def look(night: Night, struck_at: float, tell: Callable[[str], None]) -> Sight:
    """Wait until the alerts have settled, and look at everything."""
    alerts = _settled(night, struck_at, tell)
    tell("asking")
    return seen(night, struck_at, alerts)


def seen(night: Night, struck_at: float, alerts: list[Alert]) -> Sight:
    """Look at everything else now."""
    commands = {}
    for node_id, address in night.addresses.items():
        commands[f"kraft health --bootstrap-server node-{node_id}"] = _ran("health", address)
    for command in (("cluster", "health"), *(("brokers", "safe-to-restart", str(each)) for each in night.addresses)):
        commands[f"kraft {' '.join(command)}"] = _ran(*command, night.bootstrap_servers)
    return Sight(
        alerts=[
            replace(each, annotations={name: _plain(night, text) for name, text in each.annotations.items()})
            for each in alerts
        ],
        commands={typed: (code, _plain(night, text)) for typed, (code, text) in commands.items()},
        probes={
            f"node-{node_id}{path}": _probed(port, path)
            for node_id, port in night.metrics_ports.items()
            for path in ("/healthz", "/readyz")
        },
        logs={f"node-{node.node_id}": list(_log_lines(night, node, struck_at)) for node in night.cluster.nodes},
        after_s=time.time() - struck_at,
    )


def transcript(sight: Sight) -> str:
    """Return the sight as a text."""
    lines = ["== Alerts that fire (durations of the rules were shortened)", ""]
    lines += [str(each) for each in sight.alerts] or ["(none)"]
    for typed, (code, output) in sight.commands.items():
        lines += ["", f"== $ {typed}", "", output.rstrip("\n"), f"(exit code {code})"]
    lines += ["", "== Probes", ""]
    lines += [f"{where}: {answer}" for where, answer in sight.probes.items()]
    for node, logged in sight.logs.items():
        lines += ["", f"== Log of {node}, lines with WARN or ERROR since then: {len(logged)}", ""]
        lines += logged if len(logged) <= LINES_MAX else [*logged[: LINES_MAX // 2], "...", *logged[-LINES_MAX // 2 :]]
    return "\n".join(lines) + "\n"


def _settled(night: Night, struck_at: float, tell: Callable[[str], None]) -> list[Alert]:
    found, changed_s = night.prometheus.firing(), time.monotonic()
    while (after_s := time.time() - struck_at) < LOOK_BEFORE_S:
        tell(f"{after_s:.0f} s, {len(found)} alerts")
        if after_s > LOOK_AFTER_S and time.monotonic() - changed_s > QUIET_S:
            break
        # Until the rules are evaluated again.
        time.sleep(_POLL_S)
        now = night.prometheus.firing()
        if [each.labels for each in now] != [each.labels for each in found]:
            changed_s = time.monotonic()
        found = now
    return found


def _ran(*command_and_address: str) -> tuple[int, str]:
    *command, address = command_and_address
    ran = run(*command, "--bootstrap-server", address)
    return ran.returncode, ran.stdout + ran.stderr


def _probed(port: int, path: str) -> str:
    connection = HTTPConnection(HOST, port, timeout=_PROBE_DEADLINE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return f"{response.status} {response.read().decode().strip()}"
    except (OSError, HTTPException) as error:
        return f"no answer: {error}"
    finally:
        connection.close()


def _log_lines(night: Night, node: NodeProcess, since: float) -> Iterator[str]:
    for line in node.log_path.read_text(errors="replace").splitlines():
        try:
            event: Mapping[str, Any] = json.loads(line)
        except ValueError:
            # The last words of a process that ends.
            yield _plain(night, line)
            continue
        at = datetime.fromisoformat(event["timestamp"]).astimezone(UTC)
        if at.timestamp() >= since and event["level"] in _ALARMING:
            yield _plain(night, line)


def _plain(night: Night, text: str) -> str:
    """Return the text with names for addresses, and without paths of this machine."""
    for address, name in night.names.items():
        text = text.replace(address, name)
    return text.replace(str(night.directory), "/var/lib/kraft")
