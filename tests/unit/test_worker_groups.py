"""The order in which workers collect tests, and the one in which they run them."""

from __future__ import annotations

import pytest

from tests.support.worker_groups import interleaved, rotated


def test_each_worker_begins_at_another_place_and_has_all() -> None:
    orders = [rotated("abcdefgh", worker, 4) for worker in range(4)]
    assert [order[:2] for order in orders] == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
    assert [sorted(order) for order in orders] == [[*"abcdefgh"]] * 4


def test_a_folder_with_fewer_files_than_workers_is_complete_for_each() -> None:
    assert [sorted(rotated("ab", worker, 4)) for worker in range(4)] == [["a", "b"]] * 4


def test_workers_run_in_one_order_whatever_the_order_of_their_files(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    other = sorted(items, key=lambda item: str(item.path), reverse=True)
    assert interleaved(other) == interleaved(items)
