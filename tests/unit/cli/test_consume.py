"""`kraft consume` of topics with transactions."""

from __future__ import annotations

import pytest

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


def put(cluster: FakeCluster, topic: str, *values: bytes) -> None:
    cluster.partition(topic).append(build_batch([Record(-1, 5, None, value) for value in values]))


@pytest.mark.parametrize(
    "option", [("--isolation-level", "read_committed"), ("--consumer-property", "isolation.level=read_committed")]
)
def test_records_of_aborted_transactions_are_left_out(
    kraft: Shell, cluster: FakeCluster, option: tuple[str, str]
) -> None:
    log = cluster.create("orders")[0]
    put(cluster, "orders", b"one")
    aborted = build_batch(
        [Record(-1, 5, None, b"two")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    log.append(aborted)
    log.append_marker(7, 1, commit=False)
    put(cluster, "orders", b"three")
    assert kraft.succeed("consume", "orders", "--from-beginning", "--max-messages", "3") == "one\ntwo\nthree\n"
    assert kraft.succeed("consume", "orders", "--from-beginning", "--max-messages", "2", *option) == "one\nthree\n"


def test_an_isolation_level_that_does_not_exist_is_named(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    err = kraft.fail("consume", "orders", "--isolation-level", "serializable")
    assert "isolation.level=serializable is not one of read_uncommitted, read_committed" in err
