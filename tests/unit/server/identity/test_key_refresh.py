"""When keys are fetched."""

from __future__ import annotations

from kraft.server.identity.key_refresh import LOGGED_AGAIN_AFTER_MS, UNKNOWN_KEY_PAUSE_MS, KeyRefresh


def refresh() -> KeyRefresh:
    return KeyRefresh(refresh_ms=3_600_000, backoff_ms=100, backoff_ms_max=1_000, now_ms=0)


def test_keys_are_fetched_at_once_and_then_at_their_interval() -> None:
    times = refresh()
    assert times.due_ms == 0
    times.succeeded(500)
    assert times.due_ms == 3_600_500


def test_the_pause_after_a_failure_doubles_up_to_its_maximum_and_ends_with_a_success() -> None:
    times = refresh()
    pauses = []
    for _ in range(6):
        now_ms = times.due_ms
        times.failed(now_ms)
        pauses.append(times.due_ms - now_ms)
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
    times.succeeded(times.due_ms)
    now_ms = times.due_ms
    times.failed(now_ms)
    assert times.due_ms == now_ms + 100


def test_failures_are_logged_once_in_a_while() -> None:
    times = refresh()
    logged = [now_ms for now_ms in range(0, 2 * LOGGED_AGAIN_AFTER_MS + 1, 1_000) if times.failed(now_ms)]
    assert logged == [0, LOGGED_AGAIN_AFTER_MS, 2 * LOGGED_AGAIN_AFTER_MS]
    times.succeeded(0)
    assert times.failed(1)


def test_unknown_keys_bring_one_fetch_in_a_while_however_many_there_are() -> None:
    times = refresh()
    times.succeeded(0)
    fetches = 0
    for now_ms in range(0, 10 * UNKNOWN_KEY_PAUSE_MS, 10):
        times.unknown_key(now_ms)
        if times.due_ms <= now_ms:
            times.succeeded(now_ms)
            fetches += 1
    assert fetches == 9


def test_an_unknown_key_does_not_shorten_the_pause_after_a_failure() -> None:
    times = refresh()
    for _ in range(5):
        times.failed(times.due_ms)
    due_ms = times.due_ms
    assert not times.unknown_key(due_ms + UNKNOWN_KEY_PAUSE_MS)
    assert times.due_ms == due_ms
