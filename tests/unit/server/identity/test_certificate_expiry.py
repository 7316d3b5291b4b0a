from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.security_files import SecurityFiles, make
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity import certificate_expiry
from kraft.server.identity.certificate_expiry import CertificateExpiry
from kraft.tls.expiry import AGAIN_AFTER

MADE = datetime(2027, 1, 1, tzinfo=UTC)
CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"


class Clock:
    """The clock of the node."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def wall_ms(self) -> int:
        return int(self.now.timestamp() * 1_000)


def secured(directory: Path, days: int) -> SecurityFiles:
    return make(directory / "security", [["localhost"]], MADE, timedelta(days=days))[0]


def config(directory: Path, security: SecurityFiles | None) -> NodeConfig:
    plan = NodePlan(node_id=1, grpc_port=9001, controller_port=9101, kafka_port=9201, kafka_listener="SASL_SSL")
    cluster_files.write(directory, [plan], CLUSTER, security)
    return load(cluster_files.config_file(directory, 1))


def subjects(expiry: CertificateExpiry) -> list[str]:
    return [each.certificate.subject for each in expiry.due()]


def test_a_certificate_of_several_listeners_is_reported_once_and_again_every_day(tmp_path: Path) -> None:
    clock = Clock(MADE + timedelta(days=60))
    expiry = CertificateExpiry(config(tmp_path, secured(tmp_path, days=100)), clock.wall_ms)
    assert subjects(expiry) == []
    clock.now += timedelta(days=11)
    assert subjects(expiry) == ["CN=localhost"]
    assert subjects(expiry) == []
    clock.now += AGAIN_AFTER
    assert subjects(expiry) == ["CN=localhost"]


def test_a_renewed_file_is_read_and_one_that_cannot_be_used_reports_nothing(tmp_path: Path) -> None:
    files = secured(tmp_path, days=10)
    keystore = files.keystore("localhost")
    clock = Clock(MADE)
    expiry = CertificateExpiry(config(tmp_path, files), clock.wall_ms)
    assert subjects(expiry) == ["CN=localhost"]
    keystore.write_text("half a file")
    clock.now += AGAIN_AFTER
    assert subjects(expiry) == []
    keystore.unlink()
    secured(tmp_path, days=200)
    assert subjects(expiry) == []
    clock.now += timedelta(days=180)
    assert subjects(expiry) == ["CN=localhost"]


def lines_of(expiry: CertificateExpiry) -> list[MutableMapping[str, Any]]:
    with capture_logs() as lines:
        asyncio.run(expiry.check())
    return lines


def test_a_line_says_which_file_until_when_and_what_to_do(tmp_path: Path) -> None:
    files = secured(tmp_path, days=10)
    own = config(tmp_path, files)
    (soon,) = lines_of(CertificateExpiry(own, Clock(MADE + timedelta(days=3)).wall_ms))
    (over,) = lines_of(CertificateExpiry(own, Clock(MADE + timedelta(days=11)).wall_ms))
    assert (soon["event"], soon["log_level"], soon["days_left"]) == ("certificate about to expire", "warning", 7)
    assert (over["event"], over["log_level"], over["days_left"]) == ("certificate expired", "error", -1)
    for line in (soon, over):
        assert line["file"] == str(files.keystore("localhost"))
        assert line["expires"] == "2027-01-11 00:00 UTC"
        assert "without a restart" in str(line["remedy"])


async def test_a_node_without_tls_has_nothing_to_watch(tmp_path: Path) -> None:
    plan = NodePlan(node_id=1, grpc_port=9001, controller_port=9101)
    cluster_files.write(tmp_path, [plan], CLUSTER)
    expiry = CertificateExpiry(load(cluster_files.config_file(tmp_path, 1)), Clock(MADE).wall_ms)
    await expiry.watch()
    assert AGAIN_AFTER.total_seconds() > certificate_expiry.CHECK_PERIOD_S
