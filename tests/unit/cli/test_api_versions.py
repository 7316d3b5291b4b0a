"""`kraft api-versions` of a cluster that is being upgraded, and of one with a broker that is away."""

from __future__ import annotations

import json

from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


def test_brokers_that_serve_the_same_share_a_column(kraft: Shell) -> None:
    rows = [line.split("  ") for line in kraft.succeed("api-versions").splitlines()]
    assert [[cell.strip() for cell in row if cell] for row in rows] == [
        ["API", "KEY", "BROKERS 1,2", "BROKER 3"],
        ["Produce", "0", "0-13", "0-12"],
        ["Fetch", "1", "4-17", "4-17"],
        ["unknown", "9999", "-", "0-0"],
    ]


def test_programs_get_each_broker_with_its_features(kraft: Shell) -> None:
    found = json.loads(kraft.succeed("api-versions", "--output", "json"))
    assert [each["broker"] for each in found] == [1, 2, 3]
    assert found[0]["apis"][0] == {"api": "Produce", "key": 0, "min_version": 0, "max_version": 13}
    assert found[0]["features"] == [{"feature": "group.version", "min_level": 0, "max_level": 1, "finalized_level": 1}]


def test_a_broker_that_is_away_is_named(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.brokers[2].is_up = False
    assert kraft.run("api-versions", "--timeout-ms", "300", "--bootstrap-server", "broker-1:9094") == 1
    assert kraft.out.splitlines()[0].split() == ["API", "KEY", "BROKER", "1", "BROKER", "3"]
    assert kraft.err.startswith("kraft: broker 2 did not answer, so that its versions are missing: ")
