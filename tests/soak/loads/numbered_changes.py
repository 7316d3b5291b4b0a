"""A program that changes the cluster's metadata without pause, and knows which changes were acknowledged.

Topics are created, partitions added to them and configs altered, numbered throughout. Each change is requested once,
from one broker. If its outcome remains unknown, its object is not changed again. So it is known exactly what the
metadata must hold: the last acknowledged change, or the one change whose outcome is unknown.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.client import KraftError
from kraft.client.aio import Admin
from kraft.client.cluster.any_broker import check
from kraft.metadata.image import MetadataImage
from kraft.metadata.new_topics import new_topic
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import Refusal
from kraft.rpc.calls import INCREMENTAL_ALTER_CONFIGS
from kraft.rpc.peers import Peer, PeerConnections, Unreachable
from kraft.rpc.topic_calls import CREATE_PARTITIONS, CREATE_TOPICS
from kraft.wire.schema.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.wire.schema.create_topics import CreateTopicsRequest
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.working_thread import WorkingThread

PARTITIONS: Final = "partitions"
CONFIG: Final = "retention.ms"
# Far above any number, so that no record is ever old enough to go.
FIRST_VALUE: Final = 10**12
_CHANGES_PER_TOPIC: Final = 200
_CHANGES_PER_PARTITION: Final = 40
_AFTER_FAILURE_S: Final = 0.01
_POLL_S: Final = 0.002
_STOP_DEADLINE_S: Final = 60.0


@dataclass(slots=True, kw_only=True)
class Fact:
    """A value that changes set: the last acknowledged one, and one that a later change may have set."""

    acknowledged: int | None = None
    perhaps: int | None = None

    def allows(self, found: int | None) -> bool:
        return found == self.acknowledged or (self.perhaps is not None and found == self.perhaps)


class Facts:
    """All values that changes set: the partition count of each topic, and its config."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], Fact] = {}

    def of(self, topic: str, what: str) -> Fact:
        return self._facts.setdefault((topic, what), Fact())

    def differences(self, image: MetadataImage) -> list[str]:
        """Return a line for each difference between the image and the acknowledged changes."""
        found = []
        for (topic, what), fact in self._facts.items():
            value = _value(image, topic, what)
            if not fact.allows(value):
                found.append(f"{topic}: {what} is {value}, {fact.acknowledged} was acknowledged, {fact.perhaps} asked")
        return found


@dataclass(slots=True, kw_only=True)
class _Home:
    """The topic that a writer changes at the time."""

    topic: str
    partitions: Fact
    config: Fact
    changes: int = 0


class ChangeTimes:
    """Times at which changes were requested, and acknowledged."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._times: list[tuple[float, float]] = []

    def __len__(self) -> int:
        return len(self._times)

    def note(self, began_s: float) -> None:
        self._times.append((began_s, time.monotonic()))

    def wait_for_one_since(self, since_s: float, deadline_s: float, check_running: Callable[[], None]) -> float:
        """Wait for the acknowledgement of a change requested after `since_s`; return the seconds since then.

        Raises TimeoutError, and what `check_running` raises.
        """
        while True:
            # The latest are last, and more than these do not come between two looks.
            for began_s, ended_s in self._times[-1_000:]:
                if began_s >= since_s:
                    return ended_s - since_s
            check_running()
            if time.monotonic() - since_s > deadline_s:
                raise TimeoutError(f"no change of the metadata was acknowledged within {deadline_s:.0f} s {self._what}")
            time.sleep(_POLL_S)


class NumberedChanges(WorkingThread):
    """A context manager: some writers, one change at a time each, in a thread of their own.

    `addresses` are those of brokers; a writer whose broker does not do what it is asked goes to the next one. With
    `with_admin`, one more changes a topic through the public admin client with its default settings.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        writers: int = 4,
        pause_s: float = 0.01,
        attempt_s: float = 2.0,
        with_admin: bool = False,
    ) -> None:
        super().__init__("numbered changes", _STOP_DEADLINE_S)
        self.asked = 0
        """Changes that were asked for, of the numbered ones."""
        self.times = ChangeTimes("of a broker asked directly")
        self.admin_times = ChangeTimes("of the admin client")
        self.failures: Counter[str] = Counter()
        """The errors of the changes whose outcome is unknown."""
        self._addresses = list(addresses)
        self._writers = writers
        self._pause_s = pause_s
        self._attempt_s = attempt_s
        self._with_admin = with_admin
        self._facts = Facts()
        self._under_way = 0
        self._running = threading.Event()
        self._running.set()

    @property
    def acknowledged(self) -> int:
        return len(self.times)

    def wait_for_change(self, since_s: float, deadline_s: float = 60.0) -> float:
        """See ChangeTimes."""
        return self.times.wait_for_one_since(since_s, deadline_s, self.check)

    def wait_for_admin_change(self, since_s: float, deadline_s: float = 60.0) -> float:
        """See ChangeTimes."""
        return self.admin_times.wait_for_one_since(since_s, deadline_s, self.check)

    def pause(self, deadline_s: float = 30.0) -> None:
        """Stop, and return once every change has its outcome. Raises TimeoutError."""
        self._running.clear()
        until_s = time.monotonic() + deadline_s
        while self._under_way:
            self.check()
            if time.monotonic() > until_s:
                raise TimeoutError(f"{self._under_way} changes have no outcome after {deadline_s:.0f} s")
            time.sleep(_POLL_S)

    def resume(self) -> None:
        self._running.set()

    def differences(self, image: MetadataImage) -> list[str]:
        """See Facts. While paused."""
        assert not self._under_way, "changes are under way"
        return self._facts.differences(image)

    # --- the thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        asyncio.run(self._change_on())

    async def _change_on(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for writer in range(self._writers):
                tasks.create_task(self._write(writer))
            if self._with_admin:
                tasks.create_task(self._use_admin())

    async def _write(self, writer: int) -> None:
        connections = PeerConnections()
        home: _Home | None = None
        address_index = writer
        try:
            while not self._stopping.is_set():
                if not self._running.is_set():
                    await asyncio.sleep(_POLL_S)
                    continue
                node = connections.peer(self._addresses[address_index % len(self._addresses)])
                self._under_way += 1
                try:
                    home = await self._change(writer, node, home)
                finally:
                    self._under_way -= 1
                if home is None:
                    address_index += 1
                await asyncio.sleep(self._pause_s if home is not None else _AFTER_FAILURE_S)
        finally:
            await connections.close()

    async def _change(self, writer: int, node: Peer, home: _Home | None) -> _Home | None:
        """Make one change. Return the topic to change next; None if the outcome is unknown."""
        number, self.asked = self.asked, self.asked + 1
        if home is None or home.changes >= _CHANGES_PER_TOPIC:
            topic = f"changed-{writer}-{number}"
            home = _Home(
                topic=topic,
                partitions=self._facts.of(topic, PARTITIONS),
                config=self._facts.of(topic, CONFIG),
            )
            fact, value, ask = home.partitions, 1, _create_topic(node, topic, self._attempt_s)
        elif home.changes % _CHANGES_PER_PARTITION == 0:
            fact, value = home.partitions, (home.partitions.acknowledged or 0) + 1
            ask = _add_partition(node, home.topic, value, self._attempt_s)
        else:
            fact, value = home.config, FIRST_VALUE + number
            ask = _alter_config(node, home.topic, value, self._attempt_s)
        home.changes += 1
        fact.perhaps = value
        began_s = time.monotonic()
        try:
            await ask
        except (Unreachable, Refusal) as error:
            # A change may be refused although it was made, if its first response was lost between two nodes.
            self.failures[error.error_code.name if isinstance(error, Refusal) else type(error).__name__] += 1
            return None
        fact.acknowledged, fact.perhaps = value, None
        self.times.note(began_s)
        return home

    async def _use_admin(self) -> None:
        async with Admin(self._addresses) as admin:
            topic, number = "changed-by-admin", 0
            await admin.create_topic(topic, 1, 1)
            while not self._stopping.is_set():
                await asyncio.sleep(self._pause_s)
                if not self._running.is_set():
                    continue
                number += 1
                began_s = time.monotonic()
                self._under_way += 1
                try:
                    await admin.alter_topic_configs(topic, {CONFIG: str(FIRST_VALUE + number)})
                    self.admin_times.note(began_s)
                except KraftError as error:
                    self.failures[f"the admin client: {error}"] += 1
                finally:
                    self._under_way -= 1


def _value(image: MetadataImage, topic: str, what: str) -> int | None:
    found = image.topic(topic)
    if found is None:
        return None
    if what == PARTITIONS:
        return len(found.partitions)
    return int(found.configs[what]) if what in found.configs else None


async def _create_topic(node: Peer, topic: str, timeout_s: float) -> None:
    new = new_topic(topic, partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=(new,), timeout_ms=int(timeout_s * 1_000))
    (result,) = (await node.call(CREATE_TOPICS, request, timeout_s)).topics
    check(result.error_code, result.error_message)


async def _add_partition(node: Peer, topic: str, count: int, timeout_s: float) -> None:
    new = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=(new,), timeout_ms=int(timeout_s * 1_000), validate_only=False)
    (result,) = (await node.call(CREATE_PARTITIONS, request, timeout_s)).results
    check(result.error_code, result.error_message)


async def _alter_config(node: Peer, topic: str, value: int, timeout_s: float) -> None:
    config = AlterableConfig(name=CONFIG, config_operation=ConfigOperation.SET, value=str(value))
    resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=topic, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = (await node.call(INCREMENTAL_ALTER_CONFIGS, request, timeout_s)).responses
    check(result.error_code, result.error_message)
