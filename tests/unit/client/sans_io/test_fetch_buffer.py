from __future__ import annotations

from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from tests.support.client.fake_cluster import tp

ORDERS = tp("orders")
OLD, NEW = "old:9094", "new:9094"
FIRST_MS = 100
SETTINGS = ConsumerSettings(bootstrap_servers=(OLD,), retry_backoff_ms=FIRST_MS, retry_backoff_max_ms=1_000)


def after_failures(count: int) -> tuple[FetchBuffer, int]:
    """A buffer whose leader of epoch 3 has failed so many times, and the time of the last one."""
    buffer, now_ms = FetchBuffer(SETTINGS, lambda: 0.5), 0
    buffer.assign([ORDERS])
    buffer.seek(ORDERS, 0)
    for _ in range(count):
        now_ms = buffer.next_retry_ms(now_ms) or now_ms
        fail(buffer, OLD, 3, now_ms)
    return buffer, now_ms


def fail(buffer: FetchBuffer, address: str, epoch: int, now_ms: int) -> None:
    sent = buffer.next_request(address, {ORDERS: epoch}, now_ms)
    assert sent is not None
    buffer.lost(sent, now_ms)


def test_a_leader_that_failed_is_asked_again_at_growing_intervals() -> None:
    buffer, now_ms = after_failures(4)
    retry_at_ms = buffer.next_retry_ms(now_ms)
    assert retry_at_ms == now_ms + 8 * FIRST_MS
    assert buffer.next_request(OLD, {ORDERS: 3}, retry_at_ms - 1) is None
    assert buffer.next_request(OLD, {ORDERS: 3}, retry_at_ms) is not None


def test_the_next_leader_is_asked_at_once_however_often_the_one_before_failed() -> None:
    buffer, now_ms = after_failures(4)
    assert buffer.next_request(NEW, {ORDERS: 4}, now_ms) is not None


def test_a_new_leader_that_is_not_ready_is_asked_again_after_the_first_interval() -> None:
    buffer, now_ms = after_failures(4)
    fail(buffer, NEW, 4, now_ms)
    assert buffer.next_request(NEW, {ORDERS: 4}, now_ms) is None
    assert buffer.next_retry_ms(now_ms) == now_ms + FIRST_MS


def test_a_request_under_way_to_the_next_leader_is_given_up_for_a_partition_that_has_just_moved_there() -> None:
    other, epochs = tp("orders", 1), {ORDERS: 4, tp("orders", 1): 3}
    buffer, now_ms = after_failures(4)
    buffer.assign([ORDERS, other])
    buffer.seek(other, 0)
    sent = buffer.next_request(NEW, {other: 3}, now_ms)
    assert sent is not None
    assert not buffer.misses(sent, {other: 3}, now_ms)
    assert buffer.misses(sent, epochs, now_ms)


def test_the_next_leader_is_asked_at_once_whether_it_has_what_was_read() -> None:
    buffer = FetchBuffer(SETTINGS, lambda: 0.5)
    buffer.assign([ORDERS])
    buffer.committed_found(ORDERS, 5, 3)
    for epoch in (3, 4):
        check = buffer.next_check(OLD, {ORDERS: epoch}, 0)
        assert check is not None
        assert buffer.next_check(OLD, {ORDERS: epoch}, 0) is not None
        buffer.check_lost(check, 0)
        assert buffer.next_check(OLD, {ORDERS: epoch}, 0) is None
