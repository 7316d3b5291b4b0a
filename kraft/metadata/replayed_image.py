"""The image after the entries of the metadata log so far, and the image of an unfinished transaction.

Decisions on very many partitions take several entries. Markers around their records make them a transaction, which
takes effect as a whole or not at all, so that the next active controller never finds half a topic, or a fenced broker
that still leads. There are no other decisions between the markers; if the controller fails, the next one aborts the
transaction. Source: KIP-868.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import (
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
)
from kraft.model.errors import KraftError


class ContradictoryEntry(KraftError):
    """An entry that does not follow from the metadata before it: the two are not of one metadata log."""

    def __init__(self, contradiction: AssertionError) -> None:
        super().__init__(
            f"it contradicts the metadata before it ({contradiction}), so this node's metadata log or snapshot is not "
            "that of its quorum: files were copied or restored, or the controllers formed another quorum: compare "
            "'kraft metadata dump' of the controllers; if the others agree, stop this node, move its "
            "__cluster_metadata directory away and start it, and it gets the metadata from them"
        )


class ReplayedImage(Struct, frozen=True, kw_only=True):
    """The current `image`, and the `draft` that includes the records of an open transaction; None if there is none.

    Both share what is the same in them, so a draft costs only what the transaction changes.
    """

    image: MetadataImage = EMPTY_IMAGE
    draft: MetadataImage | None = None

    @property
    def in_transaction(self) -> bool:
        return self.draft is not None

    def replay(self, entry: Sequence[MetadataRecord]) -> ReplayedImage:
        """Replay one more entry. A transaction begins with the first record of an entry, and ends with the last.

        Raises ContradictoryEntry. The assertions of the image are for decisions; a log comes from outside.
        """
        try:
            return self._replay(entry)
        except AssertionError as contradiction:
            raise ContradictoryEntry(contradiction) from contradiction

    def _replay(self, entry: Sequence[MetadataRecord]) -> ReplayedImage:
        if not entry:
            return self
        begins, last = isinstance(entry[0], MetadataTransactionBegun), entry[-1]
        ends = isinstance(last, MetadataTransactionEnded | MetadataTransactionAborted)
        assert not (begins and self.in_transaction), "a transaction begins in another"
        assert self.in_transaction or begins or not ends, f"{last} without a transaction"
        records = entry[1 if begins else 0 : -1 if ends else len(entry)]
        if isinstance(last, MetadataTransactionAborted):
            return ReplayedImage(image=self.image)
        after = (self.image if self.draft is None else self.draft).replay(records)
        if isinstance(last, MetadataTransactionEnded) or not (begins or self.in_transaction):
            return ReplayedImage(image=after)
        return ReplayedImage(image=self.image, draft=after)


def replay_snapshot(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """Return the image after more records of a snapshot. Raises ContradictoryEntry, as for an entry."""
    try:
        return image.replay(records)
    except AssertionError as contradiction:
        raise ContradictoryEntry(contradiction) from contradiction
