"""Counts of what a decision changes in the partitions of the cluster, for one line in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from kraft.metadata.decision import Decision, RecordsOnDemand
from kraft.metadata.image import MetadataImage, PartitionImage
from kraft.metadata.records import MetadataRecord, PartitionChanged
from kraft.model.ids import NO_BROKER, BrokerId

Response = TypeVar("Response")


@dataclass(slots=True)
class ChangeCounts:
    """Numbers of partitions that got another leader, lost their leader, and whose ISR lost a member."""

    leaders_elected: int = 0
    leaderless: int = 0
    isr_shrunk: int = 0

    def of(self, image: MetadataImage, decision: Decision[Response]) -> Decision[Response]:
        """Return the decision with records that are counted when they are read. `image` is what was decided on."""
        return Decision(records=RecordsOnDemand(self._counted(image, decision.records)), response=decision.response)

    def add(self, before: PartitionImage, leader: BrokerId, isr: Sequence[BrokerId]) -> None:
        """Count the change of one partition to this leader and ISR."""
        if leader != before.leader:
            self.leaders_elected += leader != NO_BROKER
            self.leaderless += leader == NO_BROKER
        self.isr_shrunk += not set(before.isr).issubset(isr)

    def facts(self) -> dict[str, int]:
        """Return the counts above 0, as fields of a log event."""
        return {name: count for name, count in asdict(self).items() if count}

    def _counted(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> Iterator[MetadataRecord]:
        # Many records are decided one by one, and are not kept here.
        for record in records.consumed() if isinstance(records, RecordsOnDemand) else records:
            if isinstance(record, PartitionChanged):
                self.add(image.topics[record.topic_id].partitions[record.partition], record.leader, record.isr)
            yield record


def is_unclean(before: PartitionImage, leader: BrokerId) -> bool:
    """Return whether a leader was elected that may lack committed records."""
    return leader != NO_BROKER and leader not in before.isr and leader not in before.elr
