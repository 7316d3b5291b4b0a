"""What a member of a group reports to the process that started it: one JSON line for each event."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping


class Journal:
    """Prints events, and knows what was read and not committed since a partition was assigned."""

    def __init__(self) -> None:
        self._read: dict[int, list[int]] = {}
        """First and next offset of what was read since the last report."""

        self._pending: dict[int, list[int]] = {}

    def tell(self, event: str, **facts: object) -> None:
        # The clock is the same in all processes of a machine.
        print(json.dumps({"at_s": time.monotonic(), "event": event, **facts}), file=sys.stdout, flush=True)

    def assigned(self, partitions: Iterable[int]) -> None:
        self.tell("assigned", partitions=sorted(partitions))

    def revoked(self, partitions: Iterable[int], event: str = "revoked") -> None:
        """They are no longer this member's; what was not committed is left to the next one."""
        self.flush()
        for partition in (gone := sorted(partitions)):
            self._pending.pop(partition, None)
        self.tell(event, partitions=gone)

    def read(self, partition: int, offset: int) -> None:
        for ranges in (self._read, self._pending):
            found = ranges.get(partition)
            if found is not None and found[1] == offset:
                found[1] = offset + 1
                continue
            if found is not None and ranges is self._read:
                self.flush()
            # After a gap in what is pending, a commit covers only what follows it.
            ranges[partition] = [offset, offset + 1]

    def flush(self) -> None:
        if self._read:
            ranges = [[partition, first, end] for partition, (first, end) in self._read.items()]
            self._read = {}
            self.tell("read", ranges=ranges)

    def to_commit(self) -> dict[int, int]:
        """The next offsets by partition."""
        self.flush()
        return {partition: end for partition, (_, end) in self._pending.items()}

    def committed(self, offsets: Mapping[int, int]) -> None:
        ranges = []
        for partition, offset in offsets.items():
            found = self._pending.get(partition)
            if found is None or found[0] >= offset:
                continue
            ranges.append([partition, found[0], offset])
            if found[1] == offset:
                del self._pending[partition]
            else:
                found[0] = offset
        if ranges:
            self.tell("committed", ranges=ranges)

    def failed(self, what: str, error: object) -> None:
        self.tell("failed", what=what, error=str(error)[:200])
