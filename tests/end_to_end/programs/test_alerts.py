"""The samples of docs/monitoring, as the tools of Prometheus and Alertmanager read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.server.metrics.table import SECTIONS

PROGRAMS: Final = ("promtool", "amtool")

needs_programs = pytest.mark.skipif(
    any(shutil.which(each) is None for each in PROGRAMS),
    reason="needs Debian's packages prometheus and prometheus-alertmanager",
)

RULES: Final = Path(__file__).parents[3] / "docs" / "monitoring" / "alerts.yml"

DEADLINE_S: Final = 60

_KAFKA: Final = "kafka_server_replicamanager"
_CONTROLLER: Final = "kafka_controller_kafkacontroller"

FIRES: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "KraftNodeDown": ({'up{job="kraft"}': "0x60"}, {'up{job="kraft"}': "1x60"}),
    "KraftNoController": (
        {f'{_CONTROLLER}_activecontrollercount{{instance="{each}"}}': "0x60" for each in "ab"},
        # Two clusters, each with its own.
        {
            f'{_CONTROLLER}_activecontrollercount{{instance="{each}",strimzi_io_cluster="{cluster}"}}': f"{active}x60"
            for each, active in (("a", 1), ("b", 0))
            for cluster in ("one", "two")
        },
    ),
    "KraftPartitionsOffline": (
        {f"{_CONTROLLER}_offlinepartitionscount": "2x60"},
        {f"{_CONTROLLER}_offlinepartitionscount": "0x60"},
    ),
    "KraftBelowMinIsr": (
        {f"{_KAFKA}_underminisrpartitioncount": "1x60"},
        {f"{_KAFKA}_underminisrpartitioncount": "0x60"},
    ),
    "KraftUnderReplicated": (
        {f"{_KAFKA}_underreplicatedpartitions": "1x60"},
        # A broker that was restarted.
        {f"{_KAFKA}_underreplicatedpartitions": "9x8 0x50"},
    ),
    "KraftLogDirectoryOffline": (
        {"kafka_log_logmanager_offlinelogdirectorycount": "1x60"},
        {f"{_KAFKA}_offlinereplicacount": "0x60"},
    ),
    "KraftBrokerUnreachable": (
        {f'kraft_leader_silence_seconds{{leader="2",instance="{each}"}}': "60x60" for each in "ac"},
        # Node a is cut off, and broker 3 was restarted.
        {
            'kraft_leader_silence_seconds{leader="2",instance="a"}': "60x60",
            'kraft_leader_silence_seconds{leader="2",instance="c"}': "0x60",
            'kraft_leader_silence_seconds{leader="3",instance="a"}': "10 16 0x50",
        },
    ),
    "KraftDiskFull": (
        {'kraft_log_directory_full{directory="/data"}': "1x60"},
        {'kraft_log_directory_full{directory="/data"}': "0x60"},
    ),
    "KraftDiskSlow": (
        {'kraft_log_sync_latest_seconds{directory="/data"}': "1.4x60"},
        {'kraft_log_sync_latest_seconds{directory="/data"}': "0.1x15 4 0.1x40"},
    ),
    "KraftTransactionHangs": (
        {"kafka_server_replicamanager_partitionswithlatetransactionscount": "1x60"},
        {"kafka_server_replicamanager_partitionswithlatetransactionscount": "0x60"},
    ),
    "KraftGroupRebalances": (
        {"kraft_groups_unsettled": "1x60"},
        # Members that were restarted one after the other.
        {"kraft_groups_unsettled": "0x15 1 0x40"},
    ),
    "KraftUncleanElection": (
        {"kafka_controller_controllerstats_uncleanleaderelections_total": "0x15 1x45"},
        {"kafka_controller_controllerstats_uncleanleaderelections_total": "1x60"},
    ),
    "KraftBrokersFenced": (
        {f"{_CONTROLLER}_fencedbrokercount": "1x60"},
        {f"{_CONTROLLER}_fencedbrokercount": "1x4 0x50"},
    ),
    "KraftVoterSilent": (
        {'kraft_quorum_voter_silence_seconds{voter="2"}': "45x60"},
        {'kraft_quorum_voter_silence_seconds{voter="2"}': "0.4x60"},
    ),
    "KraftEventLoopHeld": (
        {"kraft_event_loop_held_seconds_total": "0+6x60"},
        {"kraft_event_loop_held_seconds_total": "0+1x60"},
    ),
    "KraftFilesNearlyUsedUp": (
        {'process_open_fds{job="kraft"}': "900x60", 'process_max_fds{job="kraft"}': "1000x60"},
        {'process_open_fds{job="kraft"}': "700x60", 'process_max_fds{job="kraft"}': "1000x60"},
    ),
    "KraftAuditLinesLost": (
        {"kraft_audit_lines_lost_total": "0x15 5x45"},
        {"kraft_audit_lines_lost_total": "5x60"},
    ),
    "KraftGroupBehind": (
        {'kafka_consumer_lag_millis{consumergroup="g",topic="t",partition="0"}': "400000x60"},
        {'kafka_consumer_lag_millis{consumergroup="g",topic="t",partition="0"}': "200000x60"},
    ),
}
"""For each alert, series a minute apart that it fires for at the 20th minute, and others that it does not."""

BESIDE: Final = {f'{_CONTROLLER}_activecontrollercount{{instance="c"}}': "1x60"}
"""Without an active controller, an alert of its own fires."""


def _names() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES.read_text())


def test_the_rules_ask_for_series_that_nodes_serve() -> None:
    served = {name for section in SECTIONS for metric in section.metrics for name in metric.series}
    expressions = " ".join(re.findall(r"expr: (.*)", RULES.read_text()))
    asked = set(re.findall(r"\b(?:kafka|kraft|process)_\w+", expressions))
    assert asked - served == set()
    assert "up" in expressions


def test_each_alert_has_a_case() -> None:
    assert list(FIRES) == _names()


def _promtool_test(alert: str, series: dict[str, str], fires: bool) -> dict[str, Any]:
    beside = {} if alert == "KraftNoController" else BESIDE
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in {**beside, **series}.items()],
        "promql_expr_test": [
            {
                # The alerts themselves have texts, which would have to be repeated here.
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0 or vector(0)',
                "eval_time": "20m",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }


@pytest.mark.slow
@needs_programs
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    tests = [
        _promtool_test(alert, series, fires)
        for alert, (bad, good) in FIRES.items()
        for series, fires in ((bad, True), (good, False))
    ]
    file = tmp_path / "cases.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": tests}))
    command = ["promtool", "test", "rules", str(file)]
    tested = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@needs_programs
@pytest.mark.parametrize(
    "command",
    [["promtool", "check", "config", "prometheus.yml"], ["amtool", "check-config", "alertmanager.yml"]],
    ids=lambda command: command[-1],
)
def test_the_samples_are_read_by_the_programs_they_are_for(command: list[str]) -> None:
    checked = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S, cwd=RULES.parent)
    assert checked.returncode == 0, checked.stdout + checked.stderr
