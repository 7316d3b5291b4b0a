from __future__ import annotations

from uuid import UUID

import pytest

from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import (
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
    TopicCreated,
)
from kraft.metadata.replayed_image import ContradictoryEntry, ReplayedImage
from kraft.model.ids import TopicId
from tests.support.cluster_images import registered


def topic(name: str) -> TopicCreated:
    return TopicCreated(topic=name, topic_id=TopicId(UUID(bytes=name.ljust(16).encode())))


def replayed(*entries: list[MetadataRecord]) -> ReplayedImage:
    after = ReplayedImage()
    for entry in entries:
        after = after.replay(entry)
    return after


def test_records_count_at_once_without_a_transaction() -> None:
    assert replayed([topic("a")], [], [topic("b")]) == ReplayedImage(image=EMPTY_IMAGE.replay([topic("a"), topic("b")]))


def test_an_aborted_transaction_leaves_no_trace() -> None:
    before = replayed([topic("a")])
    aborted = before.replay([MetadataTransactionBegun(), topic("b")]).replay([MetadataTransactionAborted()])
    assert aborted == before


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([[MetadataTransactionBegun()], [MetadataTransactionBegun()]], "begins in another"),
        ([[MetadataTransactionEnded()]], "without a transaction"),
        ([[MetadataTransactionAborted()]], "without a transaction"),
        ([[topic("a"), MetadataTransactionBegun()]], "changes no image"),
        ([[MetadataTransactionBegun(), MetadataTransactionEnded(), topic("a")]], "changes no image"),
    ],
)
def test_markers_out_of_place_contradict_the_log(entries: list[list[MetadataRecord]], problem: str) -> None:
    with pytest.raises(ContradictoryEntry, match=problem):
        replayed(*entries)


def test_an_entry_of_another_log_is_refused_in_words_for_an_operator() -> None:
    later = replayed([registered(1, epoch=4)])
    with pytest.raises(ContradictoryEntry) as refused:
        later.replay([registered(1, epoch=2)])
    text = str(refused.value)
    assert "contradicts the metadata before it" in text
    assert "stop this node, move its __cluster_metadata directory away and start it" in text
    assert "AssertionError" not in text
