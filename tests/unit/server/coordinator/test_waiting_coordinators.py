"""Batches of coordinators that wait for their turn at the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kraft.log.append_work import AwaitedChange
from kraft.server.replica.waiting_appends import APPEND_BYTES, WAITING_BYTES_MAX, WaitingAppend
from tests.support.counter_shard import Add
from tests.support.server.replicas import settle
from tests.unit.server.coordinator.coordinating import Coordinating

LATER_S = 1e9


class Roll(AwaitedChange):
    """A change of the log that ends when the test says so."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def wait(self) -> None:
        await self.over.wait()


async def test_a_coordinator_writes_after_a_roll_although_clients_fill_the_room_of_waiting_appends(
    tmp_path: Path,
) -> None:
    """Refused, it would be loaded again, and refuse every request of its groups, at each roll while clients do so."""
    here = Coordinating(tmp_path)
    partition = await here.leading()
    roll = Roll()
    behind = WaitingAppend(
        records=b"", work=roll, deadline_s=LATER_S, append=lambda records: None, refuse=lambda refusal: None
    )
    here.waiting_appends.join(partition.waiting_appends, behind)
    here.waiting_appends.hold("clients", WAITING_BYTES_MAX - here.waiting_appends.waiting_bytes - APPEND_BYTES)
    added = here.send(Add(1))
    await settle()
    assert not added.done()
    roll.over.set()
    assert await added == 1
    assert here.waiting_appends.waiting_bytes == WAITING_BYTES_MAX - APPEND_BYTES, "only what clients hold"
    await here.close()
