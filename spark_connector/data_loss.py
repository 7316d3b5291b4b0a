"""Data loss, records deleted before they were read: the query fails, or it continues and counts what it skipped."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kraft.client import TopicPartition

# Spark collects the standard library's logging from its Python workers.
_log = logging.getLogger("spark_connector")


class DataLoss(Exception):
    """Records were deleted before the query read them, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; to continue all the same, set the option failOnDataLoss=false")


@dataclass(slots=True, kw_only=True)
class LossPolicy:
    """The option `failOnDataLoss`, and the records skipped so far by this object."""

    fail: bool
    skipped_records: int = 0
    _skipped: dict[TopicPartition, int] = field(default_factory=dict)

    def report(self, what: str, *, partition: TopicPartition | None = None, records: int = 0) -> None:
        """Report a loss: log it, or raise DataLoss. `records` is the number of offsets skipped, 0 if unknown."""
        if self.fail:
            raise DataLoss(what)
        self.skipped_records += records
        if partition is not None and records:
            self._skipped[partition] = self._skipped.get(partition, 0) + records
        _log.warning("failOnDataLoss=false: %s (%d records skipped so far)", what, self.skipped_records)

    @property
    def has_more(self) -> bool:
        """True if records were skipped since the last `take`."""
        return bool(self._skipped)

    def take(self) -> dict[TopicPartition, int]:
        """Return the records skipped in each partition since the last call."""
        taken, self._skipped = self._skipped, {}
        return taken
