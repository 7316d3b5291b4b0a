"""Permissions of all that a node writes, with a loose umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.support.command_line import kraft


def test_what_a_node_writes_is_for_its_user_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        directory = tmp_path / "cluster"
        overrides = {
            "metadata.log.max.record.bytes.between.snapshots": "1",
            "log.file": str(directory / "logs" / "log"),
        }
        with Cluster(1, directory=directory, overrides=overrides) as cluster:
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic("orders", 2, 1)
            with Producer(cluster.bootstrap_servers, transactional_id="payer") as producer, producer.transaction():
                producer.send("orders", b"1")
            kraft(cluster, "consume", "orders", "--from-beginning", "--max-messages", "1", "--group", "readers")
            cluster.node(1).kill()
            cluster.node(1).start()
            cluster.wait_ready()
            loose = [
                f"{stat.filemode(each.stat().st_mode)} {each.relative_to(directory)}"
                for each in (directory, *directory.rglob("*"))
                # Its launcher's, without secrets.
                if each.stat().st_mode & 0o077 and each.suffix != ".properties"
            ]
        assert loose == []
        names = {each.name for each in directory.rglob("*")}
        assert {"orders-0", "leader-epoch-checkpoint", "meta.properties"} <= names
    finally:
        os.umask(before)
