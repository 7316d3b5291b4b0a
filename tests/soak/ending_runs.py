"""Thousands of logged-in connections that end together: the longest turn of the event loop that they cause.

    python -m tests.soak.ending_runs --connections 9000

A Kafka listener serves them on real sockets; each has a request that waits, as a consumer's fetch does. They end
because their user is deleted, because the listener stops, with and without a grace, and because their clients are
killed. The figure is the processor time of a turn, so a busy machine does not change it much. Ends with 1 if one
reached 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Final

from kraft.model.callbacks import Callback
from kraft.model.clients import ClientWords
from kraft.model.principal import ANONYMOUS
from kraft.rpc.refusal_log import RefusalLog
from kraft.runtime.cycle_collector import exempt_existing_objects
from kraft.server.kafka_listener.connection import ConnectionLimits
from kraft.server.kafka_listener.connection_counts import ConnectionCountLimits
from kraft.server.kafka_listener.listener import KafkaListener, ListenerLimits
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.server.loop.crowds import FewAtOnce

COMPUTED_MS_GOAL: Final = 50.0
SETTLE_S: Final = 1.5
GRACE_S: Final = 2.0
DEADLINE_S: Final = 120.0
HOST: Final = "127.0.0.1"
REQUEST: Final = b"\0\0\0\x08it waits"


class MeasuredTurns(FewAtOnce):
    """Notes the processor time between two looks at the sockets."""

    longest_s = 0.0
    _began_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[object, int]]:  # type: ignore[override]
        self.longest_s = max(self.longest_s, time.thread_time() - self._began_s)
        found = super().select(timeout)
        self._began_s = time.thread_time()
        return list(found)


class Deletable:
    """Requests of a client that is logged in: they wait for ever."""

    is_trusted = True
    is_muted = False
    muted_ms = 0

    def __init__(self, deleted: asyncio.Event) -> None:
        self._deleted = deleted

    def objection(self) -> str | None:
        return "its user was deleted" if self._deleted.is_set() else None

    def when_ready(self, go_on: Callback) -> None:
        """No request is begun while another one waits."""

    def close(self) -> None:
        """Nothing is called."""

    def client(self) -> ClientWords:
        return ClientWords(principal=ANONYMOUS, client_id="", software_name="", software_version="")

    def is_pipelined(self, frame: memoryview) -> bool:
        return False

    async def begin(self, frame: memoryview) -> ResponseBytes:
        await asyncio.Event().wait()
        return []


class Crowd:
    """A listener with so many connections, whose clients are another process."""

    def __init__(self, count: int) -> None:
        limits = ListenerLimits(
            frame_bytes_max=1_000_000,
            counts=ConnectionCountLimits(clients_max=2 * count, address_max=2 * count),
            connection=ConnectionLimits(request_s_max=600, unread_s_max=600, idle_s_max=600),
        )
        self._count = count
        self.deleted = asyncio.Event()
        self.listener = KafkaListener(limits, RefusalLog(lambda: 0), ListenerMemory(limits.frame_bytes_max))
        self._clients: asyncio.subprocess.Process

    async def gather(self) -> None:
        with socket.create_server((HOST, 0)) as found:
            port = found.getsockname()[1]
        await self.listener.listen(HOST, port, lambda _: Deletable(self.deleted))
        self._clients = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.ending_runs", "--dial", str(port), "--connections", str(self._count)),
            stdin=subprocess.PIPE,
        )
        await self._until(self._count)
        await asyncio.sleep(SETTLE_S)

    async def deletion(self) -> None:
        self.deleted.set()
        await self._until(0)

    async def stop(self) -> None:
        await self.listener.stop(GRACE_S)
        await self._until(0)

    async def cut_off(self) -> None:
        await self.listener.stop(0)
        await self._until(0)

    async def death_of_clients(self) -> None:
        self._clients.kill()
        await self._until(0)

    async def close(self) -> None:
        await self.listener.stop(0)
        if self._clients.returncode is None:
            self._clients.kill()
        await self._clients.wait()

    async def _until(self, count: int) -> None:
        while self.listener.connection_count != count:  # noqa: ASYNC110  It happens on the other side of sockets.
            await asyncio.sleep(0.05)


ENDS: Final[dict[str, Callable[[Crowd], Awaitable[None]]]] = {
    "their user is deleted": Crowd.deletion,
    "the listener stops": Crowd.stop,
    "the listener is cut off": Crowd.cut_off,
    "their clients are killed": Crowd.death_of_clients,
}


def longest_turn_ms(count: int, end: Callable[[Crowd], Awaitable[None]]) -> float:
    turns = MeasuredTurns()

    async def measured() -> float:
        crowd = Crowd(count)
        async with asyncio.timeout(DEADLINE_S):
            try:
                await crowd.gather()
                # As a node does once it has started.
                exempt_existing_objects()
                await asyncio.sleep(SETTLE_S)
                turns.longest_s = 0.0
                await end(crowd)
                return turns.longest_s * 1_000
            finally:
                await crowd.close()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(turns)) as runner:
        return runner.run(measured())


def dial(port: int, count: int) -> None:
    with ExitStack() as opened:
        for _ in range(count):
            connection = opened.enter_context(socket.create_connection((HOST, port)))
            connection.sendall(REQUEST)
        sys.stdin.read()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=9_000, help="both ends need a file each")
    parser.add_argument("--dial", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.dial is not None:
        dial(options.dial, options.connections)
        return 0
    results = {name: longest_turn_ms(options.connections, end) for name, end in ENDS.items()}
    for name, computed_ms in results.items():
        print(f"{computed_ms:8.1f} ms  {options.connections} connections end: {name}")
    return int(max(results.values()) >= COMPUTED_MS_GOAL)


if __name__ == "__main__":
    sys.exit(main())
