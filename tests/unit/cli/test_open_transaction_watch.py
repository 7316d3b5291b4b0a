"""What a reader of committed records is told about the transactions that hold records back."""

from __future__ import annotations

import time

from kraft.cli.open_transaction_watch import OpenTransactionWatch
from kraft.client import KraftError, TopicPartition
from kraft.health.hanging import OpenInPartition
from kraft.wire.schema.describe_producers import ProducerState

ORDERS_0 = TopicPartition("orders", 0)


def transaction(
    *, producer_id: int = 7, idle_s: float = 357.5, transactional_id: str | None = "payments-7", holds: bool = True
) -> OpenInPartition:
    last_ms = int((time.time() - idle_s) * 1_000)
    producer = ProducerState(
        producer_id=producer_id,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp=last_ms,
        coordinator_epoch=0,
        current_txn_start_offset=4,
    )
    return OpenInPartition(
        partition=ORDERS_0, producer=producer, holds_last_stable_offset=holds, transactional_id=transactional_id
    )


def told(*looks: list[OpenInPartition], is_waiting: bool = True) -> list[str]:
    said: list[str] = []
    left = list(looks)
    watch = OpenTransactionWatch(lambda: left.pop(0), lambda: is_waiting, said.append)
    for _ in looks:
        watch.look()
    return said


def test_a_transaction_that_holds_records_back_is_told_once_with_the_command_that_shows_it() -> None:
    (said,) = told([transaction()], [transaction()])
    held = "kraft: orders-0: records from offset 4 on wait for an open transaction of 'payments-7'"
    assert said == f"{held}, idle for 357 seconds: see kraft transactions describe payments-7"


def test_one_that_no_coordinator_knows_may_hang() -> None:
    (said,) = told([transaction(transactional_id=None)])
    assert said.endswith("of producer 7, idle for 357 seconds: see kraft transactions find-hanging")


def test_a_transaction_that_goes_on_or_holds_nothing_back_is_not_told_nor_one_of_a_reader_that_reads() -> None:
    assert told([transaction(idle_s=0.2), transaction(holds=False)]) == []
    assert told([transaction()], is_waiting=False) == []


def test_what_cannot_be_found_out_is_left_to_other_watches() -> None:
    def find() -> list[OpenInPartition]:
        raise KraftError("no broker answered")

    said: list[str] = []
    OpenTransactionWatch(find, lambda: True, said.append).look()
    assert said == []
