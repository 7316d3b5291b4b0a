from __future__ import annotations

from functools import partial

import pytest

from kraft.server.kafka_listener.large_requests import FETCH_SHARE, OTHER_SHARE, LargeRequests
from kraft.wire.api_keys import ApiKey

FRAME_BYTES_MAX = 1 << 20
LANE_BYTES = {ApiKey.FETCH: FRAME_BYTES_MAX // FETCH_SHARE, ApiKey.METADATA: FRAME_BYTES_MAX // OTHER_SHARE}


class Crowd:
    """Claimants have numbers, and begin once more when their turn is granted."""

    def __init__(self) -> None:
        self.large = LargeRequests(FRAME_BYTES_MAX)
        self.begun: list[int] = []

    @property
    def waiting_count(self) -> int:
        return sum(lane.waiting_count for lane in (self.large.fetches, self.large.others, self.large.largest))

    @property
    def under_way_bytes(self) -> int:
        return sum(lane.held for lane in (self.large.fetches, self.large.others, self.large.largest))

    def begin(self, number: int, key: ApiKey, size_bytes: int) -> None:
        frame = memoryview(key.to_bytes(2, "big") + bytes(size_bytes - 2))
        if self.large.begin(number, frame, lambda: self.begin(number, key, size_bytes)):
            self.begun.append(number)


@pytest.mark.parametrize("key", LANE_BYTES)
def test_as_many_are_under_way_as_fit_and_the_others_follow_in_their_order(key: ApiKey) -> None:
    crowd, half = Crowd(), LANE_BYTES[key] // 2
    for number in range(5):
        crowd.begin(number, key, half)
    assert (crowd.begun, crowd.waiting_count) == ([0, 1], 3)
    crowd.large.end(1)
    assert crowd.begun == [0, 1, 2]
    crowd.large.end(0)
    crowd.large.end(2)
    assert crowd.begun == [0, 1, 2, 3, 4]
    assert crowd.under_way_bytes == 2 * half
    crowd.large.end(3)
    crowd.large.end(4)
    assert (crowd.under_way_bytes, crowd.waiting_count) == (0, 0)


def test_no_append_overtakes_one_that_waits() -> None:
    crowd, lane = Crowd(), LANE_BYTES[ApiKey.METADATA]
    crowd.begin(1, ApiKey.METADATA, lane - 300)
    crowd.begin(2, ApiKey.METADATA, 400)
    crowd.begin(3, ApiKey.METADATA, 300)
    assert crowd.begun == [1]
    crowd.large.end(1)
    assert crowd.begun == [1, 2, 3]


def test_fetches_and_the_rest_do_not_wait_for_each_other_nor_for_the_largest() -> None:
    crowd = Crowd()
    for number, (key, lane) in enumerate(LANE_BYTES.items()):
        crowd.begin(number, key, lane)
    crowd.begin(10, ApiKey.FETCH, FRAME_BYTES_MAX)
    assert crowd.begun == [0, 1, 10]


def test_the_largest_are_carried_out_one_at_a_time() -> None:
    crowd = Crowd()
    crowd.begin(1, ApiKey.FETCH, LANE_BYTES[ApiKey.FETCH] + 1)
    crowd.begin(2, ApiKey.METADATA, LANE_BYTES[ApiKey.METADATA] + 1)
    assert crowd.begun == [1]
    crowd.large.end(1)
    assert crowd.begun == [1, 2]


def test_a_claimant_that_leaves_while_it_waits_is_skipped() -> None:
    crowd, lane = Crowd(), LANE_BYTES[ApiKey.METADATA]
    for number in range(4):
        crowd.begin(number, ApiKey.METADATA, lane)
    crowd.large.end(1)
    crowd.large.end(0)
    assert crowd.begun == [0, 2]
    assert crowd.waiting_count == 1


def test_a_claimant_that_leaves_before_it_begins_passes_its_turn_on() -> None:
    large, asked = LargeRequests(FRAME_BYTES_MAX), list[int]()
    frame = memoryview(int(ApiKey.METADATA).to_bytes(2, "big") + bytes(LANE_BYTES[ApiKey.METADATA] - 2))
    for number in range(3):
        large.begin(number, frame, partial(asked.append, number))
    large.end(0)
    assert asked == [1]
    large.end(1)
    assert asked == [1, 2]
    assert large.begin(2, frame, lambda: None)


def test_the_size_of_the_largest_is_remembered_until_it_is_asked_for() -> None:
    crowd = Crowd()
    crowd.begin(1, ApiKey.METADATA, 3_000)
    crowd.begin(2, ApiKey.METADATA, 2_000)
    assert crowd.large.bytes_most == 3_000
