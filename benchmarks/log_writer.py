"""`python -m benchmarks.log_writer DIRECTORY BATCH_BYTES LOG_BYTES_MAX fsync|page-cache`: appends until it is killed.

Prints, each on a line, end offsets that the log has to have after the kill: with fsync, by group commit, those that are
durable; with page-cache, those that are written. As in a broker, there is a sync now and then with the latter too.
"""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path
from typing import Final

from benchmarks.log_append import open_log
from benchmarks.log_batches import BASE_TIMESTAMP_MS, batches, stamp
from benchmarks.log_group_commit import GroupCommit
from kraft.log.change import run_now
from kraft.log.topic_config import SEGMENT_BYTES_MAX, TopicConfig
from kraft.model.ids import LeaderEpoch
from kraft.server.replica.replica_log import UNSYNCED_BYTES_MAX

FSYNC: Final = "fsync"
PAGE_CACHE: Final = "page-cache"
CONFIG: Final = TopicConfig(segment_bytes=SEGMENT_BYTES_MAX)
"""The whole log is one segment that was never closed: what was closed needs no recovery."""

_TELL_EVERY: Final = 100


def main(directory: Path, batch_bytes: int, log_bytes_max: int, durability: str) -> None:
    """Ends by itself at `log_bytes_max`, which means that nobody killed it in time."""
    log = open_log(directory, CONFIG)
    written = durability == PAGE_CACHE
    with GroupCommit(log, UNSYNCED_BYTES_MAX if written else 0) as syncs:
        reported = 0
        load = takewhile(lambda _: log.size_bytes < log_bytes_max, batches(batch_bytes))
        for number, stamped in enumerate(load, start=1):
            log.append_as_leader(stamp(stamped), LeaderEpoch(1), BASE_TIMESTAMP_MS, run_now)
            syncs.poll()
            if written and number % _TELL_EVERY == 0:
                print(log.log_end_offset, flush=True)
            elif not written and syncs.syncs > reported:
                reported = syncs.syncs
                print(log.synced_end_offset, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
