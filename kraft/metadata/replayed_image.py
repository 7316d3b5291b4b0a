"""The image that a log's entries led to so far, and the one that an unfinished transaction is leading to.

Decisions on very many partitions take several entries. The markers around their records make them count together or
not at all, so that whoever leads next never finds half a topic, or a fenced broker that still leads. Nobody else
decides anything meanwhile: a transaction holds all that is between its markers, and its author's successor aborts it.

Source: KIP-868.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import MetadataRecord, TransactionAborted, TransactionBegun, TransactionEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedImage:
    """`image` is what counts. `draft` has the records of an open transaction as well; None while there is none.

    Images share what is the same in both, so a draft costs what the transaction changes.
    """

    image: MetadataImage = EMPTY_IMAGE
    draft: MetadataImage | None = None

    @property
    def in_transaction(self) -> bool:
        return self.draft is not None

    def replay(self, entry: Sequence[MetadataRecord]) -> ReplayedImage:
        """After one more entry. A transaction begins at the beginning of one, and ends at the end of one."""
        if not entry:
            return self
        begins, last = isinstance(entry[0], TransactionBegun), entry[-1]
        ends = isinstance(last, TransactionEnded | TransactionAborted)
        assert not (begins and self.in_transaction), "a transaction begins in another"
        assert self.in_transaction or begins or not ends, f"{last} without a transaction"
        records = entry[1 if begins else 0 : -1 if ends else len(entry)]
        if isinstance(last, TransactionAborted):
            return ReplayedImage(image=self.image)
        after = (self.image if self.draft is None else self.draft).replay(records)
        if isinstance(last, TransactionEnded) or not (begins or self.in_transaction):
            return ReplayedImage(image=after)
        return ReplayedImage(image=self.image, draft=after)
