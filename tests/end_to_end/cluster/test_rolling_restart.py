"""`kraft brokers safe-to-restart` before each restart, as docs/health.md has it: under load, not one request fails."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.support.command_line import run_kraft
from tests.support.waiting import until

SAFE, NOT_SAFE = 0, 1
SETTINGS = {"default.replication.factor": "3", "min.insync.replicas": "2", "broker.session.timeout.ms": "6000"}


class Load:
    """Sends one record after the other with acks=all, until the block ends."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent = 0
        self._servers = cluster.bootstrap_servers
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        # A failure leaves `sent` where it is, which the test notices.
        with Producer(self._servers, acks="all") as producer:
            while not self._ends.is_set():
                producer.send("orders", b"x").result(60)
                self.sent += 1

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(60)

    def goes_on(self) -> None:
        before = self.sent
        until(lambda: self.sent > before, "a request has failed, or is not answered")


def is_safe(cluster: Cluster, node_id: int) -> bool:
    ran = run_kraft(cluster, "brokers", "safe-to-restart", str(node_id))
    assert ran.returncode in (SAFE, NOT_SAFE), ran.stderr
    return ran.returncode == SAFE


@pytest.mark.slow
def test_nodes_are_restarted_one_after_the_other_and_no_request_fails() -> None:
    with Cluster(3, overrides=SETTINGS) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=12, replication_factor=3)
        with Load(cluster) as load:
            for node_id, other in ((1, 2), (2, 3), (3, 1)):
                until(partial(is_safe, cluster, node_id), f"node {node_id} may never be restarted")
                cluster.node(node_id).terminate()
                assert not is_safe(cluster, other)
                load.goes_on()
                cluster.node(node_id).start()
            until(partial(is_safe, cluster, 1), "the last one does not come back")
            load.goes_on()
            # Its session and its place in the ISRs go on for seconds.
            cluster.node(3).pause()
            try:
                assert not is_safe(cluster, 2)
            finally:
                cluster.node(3).resume()
            load.goes_on()
