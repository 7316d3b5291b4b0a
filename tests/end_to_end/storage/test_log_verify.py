"""`kraft log verify` over the files of a real node: while it runs, after a kill, and after a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from kraft.cli.log import app
from kraft.testing import Cluster
from tests.support.records import create_topic, publish

RECORDS = 5_000


def verified(directory: Path) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["verify", str(directory), "--output", "json"])
    found: dict[str, Any] = json.loads(result.stdout)
    assert (result.exit_code, found["is_well"]) == (0, True), found["findings"]
    return found


def test_the_files_of_a_node_are_well_whatever_it_does(tmp_path: Path) -> None:
    with Cluster(nodes=1, directory=tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "kept", partitions=3, replication_factor=1)
        (partition,) = tmp_path.rglob("kept-0")
        log_directory = partition.parent
        for part in range(3):
            publish(cluster.bootstrap_servers, "kept", range(part * RECORDS, (part + 1) * RECORDS))
            # Acknowledged means on disk: the node has written them all by now.
            assert verified(log_directory)["records"] == (part + 1) * RECORDS
        cluster.kill()
        assert verified(log_directory)["records"] == 3 * RECORDS
        cluster.start()
        cluster.wait_ready()
        cluster.stop()
        found = verified(log_directory)
        assert (len(found["partitions"]), found["records"], found["findings"]) == (3, 3 * RECORDS, [])
