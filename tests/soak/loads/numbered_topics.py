"""A program that creates topics without pause, puts a record into each, and deletes the oldest.

A power loss affects what is new: a topic's directories, its first segment and its first record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kraft.client import Admin, ErrorCode, KraftError, Producer, Refusal, Unreachable
from tests.support.records import read_all
from tests.support.waiting import until
from tests.support.working_thread import WorkingThread

_ALIVE_MAX: Final = 12
_REPLICATION_FACTOR: Final = 3
_CONFIGS: Final = {"min.insync.replicas": "2"}
_STEP_DEADLINE_S: Final = 150.0
_POLL_S: Final = 0.2
_CLIENT_ERRORS: Final = (KraftError, Unreachable, TimeoutError)


@dataclass(slots=True, kw_only=True)
class _Topic:
    """The acknowledged state of one topic, and the requested one."""

    name: str
    number: int
    is_created: bool = False
    has_record: bool = False
    delete_asked: bool = False
    is_deleted: bool = False


class NumberedTopics(WorkingThread):
    """A context manager: one topic at a time, from a thread of its own."""

    def __init__(self, bootstrap_servers: str, *, pause_s: float = 0.05) -> None:
        super().__init__("numbered topics", _STEP_DEADLINE_S)
        self._bootstrap_servers = bootstrap_servers
        self._pause_s = pause_s
        self._topics: list[_Topic] = []
        # Held while something is asked for, so that a check meets nothing under way.
        self._guard = threading.Lock()

    @property
    def created(self) -> int:
        """Acknowledged by now."""
        return sum(topic.is_created for topic in self._topics)

    @property
    def deleted(self) -> int:
        """Acknowledged by now."""
        return sum(topic.is_deleted for topic in self._topics)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """A context manager without requests inside. Raises TimeoutError."""
        if not self._guard.acquire(timeout=_STEP_DEADLINE_S):
            raise TimeoutError(f"a topic has no outcome after {_STEP_DEADLINE_S:.0f} s")
        try:
            yield
        finally:
            self._guard.release()

    def check(self, deadline_s: float = 30.0) -> None:
        """Check the acknowledged state: topics and their records exist, deleted topics do not. Raises TimeoutError.

        While quiet. What a broker says of the metadata may be old for a moment, so it is asked until the deadline.
        """
        super().check()
        with Admin(self._bootstrap_servers) as admin:

            def wrong() -> list[str]:
                return list(self._wrong(set(admin.list_topics())))

            until(lambda: not wrong(), lambda: "; ".join(wrong()), deadline_s)

    def _wrong(self, listed: Set[str]) -> Iterator[str]:
        for topic in self._topics:
            is_there = topic.name in listed
            if topic.is_deleted and is_there:
                yield f"{topic.name} was deleted, and is there"
            elif topic.is_created and not topic.delete_asked and not is_there:
                yield f"{topic.name} was created, and is not there"
            elif is_there and not topic.delete_asked:
                found, least = read_all(self._bootstrap_servers, topic.name), int(topic.has_record)
                if not least <= found.total() <= 1:
                    yield f"{topic.name} has {found.total()} records, {least} was acknowledged"

    # --- the thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        with Admin(self._bootstrap_servers) as admin, Producer(self._bootstrap_servers, linger_ms=0) as producer:
            while not self._stopping.wait(self._pause_s):
                with self.quiet():
                    self._step(admin, producer)

    def _step(self, admin: Admin, producer: Producer) -> None:
        number = len(self._topics)
        topic = _Topic(name=f"numbered-{number}", number=number)
        self._topics.append(topic)
        try:
            topic.is_created = self._create(admin, topic)
            producer.send(topic.name, b"%d" % number, partition=0).result(timeout=_STEP_DEADLINE_S)
            topic.has_record = True
            if number >= _ALIVE_MAX:
                self._delete(admin, self._topics[number - _ALIVE_MAX])
        except _CLIENT_ERRORS:
            # Its outcome stays unknown; what was acknowledged before is known.
            time.sleep(self._pause_s)

    def _create(self, admin: Admin, topic: _Topic) -> bool:
        try:
            admin.create_topic(topic.name, 1, _REPLICATION_FACTOR, _CONFIGS)
        except Refusal as refusal:
            # Nobody but an earlier attempt of this very call can have made it.
            if refusal.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        return True

    def _delete(self, admin: Admin, topic: _Topic) -> None:
        topic.delete_asked = True
        try:
            admin.delete_topics([topic.name])
        except Refusal as refusal:
            # As above; or it was never made.
            if refusal.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        topic.is_deleted = topic.is_created
