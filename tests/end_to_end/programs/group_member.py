"""A member of a group that reads until its input ends: `python -m MODULE SERVERS GROUP TOPIC FILE [KEY=VALUE]`.

It writes two kinds of lines to the file: `read PARTITION OFFSET` for each record that a poll returned, and
`done PARTITION OFFSET` once the offset behind the record is committed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kraft.client import CommitFailed, Consumer, ConsumerRecord
from kraft.local.forked_processes import ForkedProcess
from tests.support.command_line import running

END_S = 60


def read(
    servers: str,
    group_id: str,
    topic: str,
    note: Callable[[str, list[ConsumerRecord]], None],
    ended: threading.Event,
    **settings: Any,
) -> None:
    """Poll and commit until `ended`, and note what was read and what was committed."""
    with Consumer(
        servers, group_id=group_id, auto_offset_reset="earliest", enable_auto_commit=False, **settings
    ) as consumer:
        consumer.subscribe(topic)
        while not ended.is_set():
            records = consumer.poll(200, max_records=50)
            note("read", records)
            try:
                consumer.commit()
            except CommitFailed:
                # Others have the partitions, and read the records again.
                continue
            note("done", records)


@contextmanager
def member_process(servers: str, group_id: str, topic: str, file: Path, **settings: str) -> Iterator[ForkedProcess]:
    """Run a member in a process of its own, which leaves at the end of the block unless it was killed before."""
    given = [f"{name}={value}" for name, value in settings.items()]
    with running(__name__, servers, group_id, topic, file, *given) as member:
        yield member.process
        member.stdin.close()
        member.process.wait(END_S)


def main() -> None:
    servers, group_id, topic, file, *settings = sys.argv[1:]
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    with Path(file).open("ab", buffering=0) as lines:

        def note(kind: str, records: list[ConsumerRecord]) -> None:
            lines.write(b"".join(b"%s %d %d\n" % (kind.encode(), each.partition, each.offset) for each in records))

        read(servers, group_id, topic, note, ended, **dict(each.split("=", 1) for each in settings))


if __name__ == "__main__":
    main()
