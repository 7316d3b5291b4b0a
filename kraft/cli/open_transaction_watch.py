"""Tells why a reader of committed records gets none: an open transaction holds them back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kraft.cli.options import open_admin
from kraft.cli.printing import Say, say
from kraft.model.callbacks import Condition
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin, TopicPartition
    from kraft.health.hanging import OpenInPartition

LOOK_AFTER_S: Final = 1.2
LOOK_EVERY_S_MAX: Final = 15.0
"""The interval doubles up to it: the reader may wait for days, and nothing be wrong."""

LOOK_MAX_MS: Final = 5_000

IDLE_S: Final = 1.0
"""A transaction whose producer has written since is on its way."""

PARTITIONS_MAX: Final = 500


class OpenTransactionWatch:
    """Looks at open transactions while a reader waits; says each that holds back records once."""

    def __init__(self, find: Callable[[], Sequence[OpenInPartition]], is_waiting: Condition, say: Say) -> None:
        """All callables are called in another thread; `find` raises KraftError where it cannot be found out."""
        self._find = find
        self._is_waiting = is_waiting
        self._say = say
        self._said: set[tuple[object, ...]] = set()

    def look(self) -> None:
        from kraft.client import KraftError

        try:
            found = self._find()
        except KraftError:
            # The reader's own watches say what is wrong.
            return
        now_ms = int(time.time() * 1_000)
        for each in found:
            name = (each.partition, each.producer.producer_id, each.start_offset)
            is_idle = each.seconds_since_write(now_ms) >= IDLE_S
            if each.holds_last_stable_offset and is_idle and name not in self._said and self._is_waiting():
                self._said.add(name)
                self._say(f"kraft: {_reason(each, now_ms)}")


@contextmanager
def open_transaction_watch(
    bootstrap_server: str, partitions: Sequence[TopicPartition], is_waiting: Condition
) -> Iterator[None]:
    """Look until the end of the block, at the first partitions of many. A look that is under way is not waited for."""
    ended = threading.Event()

    def watch() -> None:
        with open_admin(bootstrap_server, LOOK_MAX_MS) as admin:
            looks = OpenTransactionWatch(lambda: _find(admin, partitions[:PARTITIONS_MAX]), is_waiting, say)
            every_s = LOOK_AFTER_S
            while not ended.wait(every_s):
                if is_waiting():
                    looks.look()
                    every_s = min(2 * every_s, LOOK_EVERY_S_MAX)
                else:
                    every_s = LOOK_AFTER_S

    threading.Thread(target=watch, name="open transaction watch", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _find(admin: Admin, partitions: Sequence[TopicPartition]) -> list[OpenInPartition]:
    from msgspec.structs import replace

    from kraft.client import KraftError
    from kraft.health.hanging import open_transactions

    outcomes = admin.describe_producers(partitions)
    found = open_transactions({each: known for each, known in outcomes.items() if not isinstance(known, KraftError)})
    if not found:
        return []
    listed = admin.list_transactions(producer_ids=sorted({each.producer.producer_id for each in found}))
    ids = {each.producer_id: each.transactional_id for each in listed}
    return [replace(each, transactional_id=ids.get(each.producer.producer_id)) for each in found]


def _reason(transaction: OpenInPartition, now_ms: int) -> str:
    idle = counted(int(transaction.seconds_since_write(now_ms)), "second")
    held = f"{transaction.partition}: records from offset {transaction.start_offset} on wait for an open transaction"
    if transaction.transactional_id is None:
        producer_id = transaction.producer.producer_id
        return f"{held} of producer {producer_id}, idle for {idle}: see kraft transactions find-hanging"
    name = transaction.transactional_id
    return f"{held} of {name!r}, idle for {idle}: see kraft transactions describe {name}"
