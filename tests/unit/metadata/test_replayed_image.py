from __future__ import annotations

from uuid import UUID

import pytest

from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import (
    MetadataRecord,
    TopicCreated,
    TransactionAborted,
    TransactionBegun,
    TransactionEnded,
)
from kraft.metadata.replayed_image import ReplayedImage
from kraft.model.ids import TopicId


def topic(name: str) -> TopicCreated:
    return TopicCreated(topic=name, topic_id=TopicId(UUID(bytes=name.ljust(16).encode())))


def replayed(*entries: list[MetadataRecord]) -> ReplayedImage:
    after = ReplayedImage()
    for entry in entries:
        after = after.replay(entry)
    return after


def test_records_count_at_once_without_a_transaction() -> None:
    assert replayed([topic("a")], [], [topic("b")]) == ReplayedImage(image=EMPTY_IMAGE.replay([topic("a"), topic("b")]))


def test_records_of_a_transaction_count_when_it_ends() -> None:
    begun = replayed([topic("a")], [TransactionBegun(), topic("b")], [topic("c")])
    assert begun.in_transaction
    assert begun.image == EMPTY_IMAGE.replay([topic("a")])
    ended = begun.replay([topic("d"), TransactionEnded()])
    assert ended == ReplayedImage(image=EMPTY_IMAGE.replay(map(topic, "abcd")))


@pytest.mark.parametrize("last", [[TransactionEnded()], [topic("b"), TransactionEnded()]])
def test_a_transaction_may_begin_and_end_alone_in_an_entry(last: list[MetadataRecord]) -> None:
    assert replayed([TransactionBegun()], [topic("a")], last).image.topic("a") is not None
    assert not replayed([TransactionBegun(), topic("a"), TransactionEnded()]).in_transaction


def test_an_aborted_transaction_leaves_no_trace() -> None:
    before = replayed([topic("a")])
    aborted = before.replay([TransactionBegun(), topic("b")]).replay([TransactionAborted()])
    assert aborted == before


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([[TransactionBegun()], [TransactionBegun()]], "begins in another"),
        ([[TransactionEnded()]], "without a transaction"),
        ([[TransactionAborted()]], "without a transaction"),
        ([[topic("a"), TransactionBegun()]], "changes no image"),
        ([[TransactionBegun(), TransactionEnded(), topic("a")]], "changes no image"),
    ],
)
def test_markers_out_of_place_are_our_own_bug(entries: list[list[MetadataRecord]], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        replayed(*entries)
