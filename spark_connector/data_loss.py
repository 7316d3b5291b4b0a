"""Data loss, records deleted before they were read: the query fails, or it continues and logs what it skipped."""

from __future__ import annotations

import logging
from dataclasses import dataclass

# Spark collects the standard library's logging from its Python workers.
_log = logging.getLogger("spark_connector")


class DataLoss(Exception):
    """Records were deleted before the query read them, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; to continue without them, set the option failOnDataLoss=false")


@dataclass(slots=True, kw_only=True)
class LossPolicy:
    """The option `failOnDataLoss`, and the number of records skipped so far by this object."""

    fail: bool
    skipped_records: int = 0

    def report(self, what: str, *, records: int) -> None:
        """Report a loss: log it, or raise DataLoss. `records` is the number of offsets skipped, 0 if unknown."""
        if self.fail:
            raise DataLoss(what)
        self.skipped_records += records
        _log.warning("failOnDataLoss=false: %s (%d records skipped so far)", what, self.skipped_records)
