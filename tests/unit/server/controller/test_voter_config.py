from __future__ import annotations

from pathlib import Path

from kraft.server.config.loading import load
from kraft.server.controller.voter_config import voter_config

CONTROLLER = """
process.roles=controller
node.id=1
listeners=CONTROLLER://localhost:9093
log.dirs=data
controller.quorum.voters=1@localhost:9093
"""


def settings_of(tmp_path: Path, *lines: str) -> dict[str, object]:
    file = tmp_path / "server.properties"
    file.write_text(CONTROLLER + "\n".join(lines))
    config = voter_config(load(file), "cluster")
    return {
        "election": (config.election_timeout_ms_min, config.election_timeout_ms_max),
        "fetch": config.fetch_timeout_range_ms,
        "backoff": config.round_ms_max,
        "request": config.request_timeout_ms,
        "linger": config.append_linger_ms,
        "append": (config.append_period_ms, config.beat_ms),
    }


def test_by_default_the_fetch_timeout_is_the_election_timeout(tmp_path: Path) -> None:
    assert settings_of(tmp_path) == {
        "election": (500, 1_000),
        "fetch": (500, 1_000),
        "backoff": 250,
        "request": 1_000,
        "linger": 0,
        "append": (100, 25),
    }


def test_each_time_of_the_quorum_has_its_key(tmp_path: Path) -> None:
    lines = (
        "controller.quorum.election.timeout.ms=2000",
        "controller.quorum.fetch.timeout.ms=3000",
        "controller.quorum.election.backoff.max.ms=100",
        "controller.quorum.request.timeout.ms=4000",
        "controller.quorum.append.linger.ms=25",
    )
    assert settings_of(tmp_path, *lines) == {
        "election": (1_000, 2_000),
        "fetch": (1_500, 3_000),
        "backoff": 100,
        "request": 4_000,
        "linger": 25,
        "append": (100, 25),
    }


def test_with_the_shortest_timeouts_a_leader_sends_often_enough(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, "controller.quorum.election.timeout.ms=100", "controller.quorum.fetch.timeout.ms=100"
    )
    assert (settings["election"], settings["append"]) == ((50, 100), (12, 3))
