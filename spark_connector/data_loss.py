"""What happens when records are gone before they were read: the query fails, or it goes on and says what it skipped."""

from __future__ import annotations

import logging
from dataclasses import dataclass

# Spark gathers the standard library's logging from its Python workers, so this is where its users look.
_log = logging.getLogger("spark_connector")


class DataLoss(Exception):
    """Records were deleted before the query read them, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; with the option failOnDataLoss=false the query goes on without them")


@dataclass(slots=True, kw_only=True)
class LossPolicy:
    """`failOnDataLoss`, and the number of records skipped so far under this policy object."""

    fail: bool
    skipped_records: int = 0

    def report(self, what: str, *, records: int) -> None:
        """`records` is how many offsets are skipped, 0 when nobody can tell. Raises DataLoss."""
        if self.fail:
            raise DataLoss(what)
        self.skipped_records += records
        _log.warning("failOnDataLoss=false: %s (%d records skipped so far)", what, self.skipped_records)
