"""What thousands of new logs take: syncs, and checkpoints, which have all replicas, counted on a real disk."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.model.ids import TopicId
from kraft.runtime.disk import RealDirectory
from kraft.server.replica import high_watermarks, openings
from kraft.server.replica.openings import PIECE_S, PIECE_S_MAX
from kraft.server.replica.partition import Partition
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.replicas import Broker, InlineExecutor
from tests.unit.server.replica.publishing import Host

NONE = cluster(1)
LATER = TopicId(UUID(int=200))


class SlowExecutor(Executor):
    """Takes this time for everything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        made = InlineExecutor().submit(work, *arguments, **named)
        done: Future[Any] = Future()
        asyncio.get_running_loop().call_later(self.seconds, lambda: done.set_result(made.result()))
        return done


@dataclass(slots=True)
class Written:
    """The checkpoints written, each as the number of its entries."""

    entries: list[int]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    seen, write = Written([]), high_watermarks.write_high_watermarks

    def note(disk: Any, directory: Any, offsets: Any) -> None:
        seen.entries.append(len(offsets))
        write(disk, directory, offsets)

    monkeypatch.setattr(high_watermarks, "write_high_watermarks", note)
    return seen


async def create_slowly(tmp_path: Path, name: str, *, held: int, new: int, log_s: float) -> None:
    """Create some replicas at once, and then others on a disk that takes that time for each log."""
    host = Host(Broker(tmp_path), names=[name]).start()
    await host.act_on(with_topic(NONE, *[[1]] * held))
    host.use_thread(SlowExecutor(log_s))
    await host.act_on(with_topic(host.image, *[[1]] * new, topic="later", topic_id=LATER))
    await asyncio.sleep(2 * new * log_s)
    assert all(host.partition(number, LATER).leader is not None for number in range(new))
    host.use_thread(InlineExecutor())
    await host.publisher.close()
    assert host.broker.failures == []


async def test_a_new_log_takes_two_syncs_and_its_name_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs, sync = list[str](), RealDirectory.sync

    def note(directory: RealDirectory) -> None:
        syncs.append("")
        sync(directory)

    monkeypatch.setattr(RealDirectory, "sync", note)
    counts = []
    for count in (10, 30):
        host = Host(Broker(tmp_path), names=[str(count)]).start()
        await host.act_on(NONE)
        before = len(syncs) + host.broker.disk.syncs
        await host.act_on(with_topic(NONE, *[[1]] * count))
        counts.append(len(syncs) + host.broker.disk.syncs - before)
        await host.publisher.close()
    few, many = counts
    assert many - few == 2 * 20


async def test_a_piece_has_the_more_logs_the_more_replicas_its_checkpoint_has(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_s = PIECE_S / 2
    await create_slowly(tmp_path, "few", held=20, new=24, log_s=log_s)
    few = len(written.entries)
    monkeypatch.setattr(openings, "HELD_PER_LOG", 2)
    written.entries.clear()
    await create_slowly(tmp_path, "many", held=20, new=24, log_s=log_s)
    # Of the first replicas, then after 10 and 14 more; and at the end.
    assert len(written.entries) < few / 3
    assert sum(written.entries) <= 24 * 2 + 3 * 44


async def test_roles_wait_for_no_longer_piece_than_the_longest(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings, "HELD_PER_LOG", 1)
    changes = list[Partition]()
    host = Host(Broker(tmp_path, role_changed=changes.append)).start()
    await host.act_on(with_topic(NONE, *[[1]] * 20))
    changes.clear()
    host.use_thread(SlowExecutor(PIECE_S_MAX / 4))
    await host.act_on(with_topic(host.image, *[[1]] * 8, topic="later", topic_id=LATER))
    await asyncio.sleep(1.5 * PIECE_S_MAX)
    assert len(changes) == 4
    await asyncio.sleep(3 * PIECE_S_MAX)
    assert len(changes) == 8
    host.use_thread(InlineExecutor())
    await host.publisher.close()
