"""What workers do, with any client: one transaction after the other, of which some are aborted on purpose.

A worker whose transaction failed aborts it, and reads again from the committed offsets.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.transactions.options import ABORTED_SHARE, ACCOUNTS, Options, Work

_TRANSFER_PAUSE_S: Final = 0.02
_AMOUNT_MAX: Final = 100


class Aborted(Exception):
    """The transaction has failed, and is to be aborted."""


class Ended(Exception):
    """The producer can only be closed, as after it was fenced."""


class Read(NamedTuple):
    partition: int
    offset: int
    value: bytes


class Client(ABC):
    """A producer of transactions, and a consumer in a group. Calls repeat what may be repeated.

    They raise Aborted and Ended.
    """

    @abstractmethod
    def subscribe(self) -> None: ...

    @abstractmethod
    def poll(self) -> Sequence[Read]:
        """Return records of partitions that are still assigned; rebalances happen only here."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, partition: int, key: bytes, value: bytes) -> None: ...

    @abstractmethod
    def send_offsets(self) -> None:
        """Commit with the transaction what the last poll returned."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def rewind(self) -> None:
        """Continue from the committed offsets."""

    @abstractmethod
    def close(self) -> None: ...


class Worker:
    def __init__(self, options: Options, client: Client, journal: Journal) -> None:
        self._options = options
        self._client = client
        self._journal = journal
        self._chance = Random(f"{options.name} {options.run}")

    def run(self, stopping: threading.Event) -> None:
        """Work until `stopping` is set. Raises Ended."""
        if self._options.work is Work.TRANSFER:
            number = 0
            while not stopping.wait(_TRANSFER_PAUSE_S):
                number += 1
                self._transfer(f"{self._options.name}/{self._options.run}/{number}")
        else:
            self._client.subscribe()
            while not stopping.is_set():
                self._copy(self._client.poll())
        self._client.close()

    def _copy(self, records: Sequence[Read]) -> None:
        if not records:
            return

        def write() -> None:
            for each in records:
                key = b"%d:%d" % (each.partition, each.offset)
                self._client.send(each.partition % self._options.partitions, key, each.value)
            self._client.send_offsets()

        if not self._transact(write, ""):
            self._client.rewind()

    def _transfer(self, name: str) -> None:
        payer = self._chance.randrange(ACCOUNTS)
        # The next accounts are in other partitions.
        payee = (payer + self._chance.randrange(1, self._options.partitions)) % ACCOUNTS
        amount = self._chance.randint(1, _AMOUNT_MAX)

        def write() -> None:
            for account, change in ((payer, -amount), (payee, amount)):
                value = f"{name} {change}".encode()
                self._client.send(account % self._options.partitions, b"%d" % account, value)

        self._transact(write, name)

    def _transact(self, write: Callable[[], None], name: str) -> bool:
        """Run one transaction; return True if it is committed."""
        is_dropped = self._chance.random() < ABORTED_SHARE
        try:
            self._client.begin()
            write()
            if not is_dropped:
                began_s = time.monotonic()
                self._client.commit()
                self._journal.tell("committed", name=name, took_s=time.monotonic() - began_s)
                return True
        except Aborted as error:
            self._journal.failed("transaction", error)
        self._client.abort()
        self._journal.tell("aborted", name=name)
        return False
