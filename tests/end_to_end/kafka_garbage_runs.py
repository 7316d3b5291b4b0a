"""Garbage at the PLAINTEXT port of a real node, by the million: others do not notice, and its memory stays in bounds.

    python -m tests.end_to_end.kafka_garbage_runs --frames 1000000

Each damaged frame is sent to a node that has answered all before it on that connection. Beside that stand clients that
send a byte a second, clients that do nothing, clients that read no answers, and, if asked for, clients that send the
requests that take most memory. Meanwhile librdkafka writes and reads on connections of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final

import psutil

from kraft.client import Admin
from kraft.server.config import PLAINTEXT, load
from kraft.server.node_process import NodeProcess
from kraft.testing import Cluster
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.end_to_end.kafka_garbage import Damage, Garbage
from tests.end_to_end.kafka_garbage_crowd import Crowd, Line
from tests.end_to_end.kafka_garbage_work import LARGE, TOPIC, Work, fill
from tests.end_to_end.records import create_topic

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of socket.request.max.bytes; memory may grow by twice this."""

BATCH_BYTES: Final = 1_000_000
"""librdkafka's batch.size, of what is there to be read."""

WORKERS: Final = 32
ANSWER_DEADLINE_S: Final = 0.5
"""After that a frame counts as one without an answer: acks=0 has none, and a fetch may wait."""

UNFINISHED_S: Final = 0.02
_SETTINGS: Final = {
    "socket.request.max.bytes": str(REQUEST_BYTES_MAX),
    "auto.create.topics.enable": "false",
    # Who does nothing all along is to be there at the end, however long the run takes.
    "connections.max.idle.ms": "7200000",
}


@dataclass(slots=True)
class Outcome:
    """What was sent, what the node did meanwhile, and what it held."""

    frames: int = 0
    ends: Counter[tuple[Damage, str]] = field(default_factory=Counter)
    pairs: int = 0
    resident_before: int = 0
    resident_connected: int = 0
    """With the idle connections, and before anybody sends anything."""

    resident_max: int = 0
    resident_after: int = 0
    tracebacks: int = 0
    bugs: int = 0
    refusals_told: int = 0
    kinds_told_most: int = 0
    is_alive: bool = False
    unread: int = 0
    idle: int = 0
    idle_at_the_end: int = 0
    crowd: str = ""
    work_s: list[float] = field(default_factory=list)
    work_errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def resident_growth(self) -> int:
        return self.resident_max - self.resident_connected

    @property
    def growth_max(self) -> int:
        """Who reads nothing is given one batch even when there is no room for answers left (KIP-74)."""
        return 2 * REQUEST_BYTES_MAX + self.unread * BATCH_BYTES

    @property
    def objections(self) -> list[str]:
        """What should not be."""
        found = {
            "the node died": not self.is_alive,
            "tracebacks in its log": bool(self.tracebacks or self.bugs),
            "its memory grew too much": self.resident_growth > self.growth_max,
            "idle connections were lost": self.idle_at_the_end < self.idle,
            "librdkafka noticed": bool(self.work_errors),
            "a kind of refusal was told too often": self.kinds_told_most > 1 + self.seconds / 60,
        }
        return [what for what, holds in found.items() if holds]

    def __str__(self) -> str:
        slowest = max(self.work_s, default=0.0)
        totals: dict[Damage, Counter[str]] = {kind: Counter() for kind in Damage}
        for (kind, end), count in self.ends.items():
            totals[kind][end] += count
        lines = [
            f"{self.frames:,} malformed frames of {self.pairs} keys and versions in {self.seconds:.0f} s",
            *(
                f"  {kind.value}: " + ", ".join(f"{count:,} {end}" for end, count in totals[kind].most_common())
                for kind in Damage
            ),
            f"{self.idle:,} idle connections, {self.idle_at_the_end:,} of them there in the end; {self.crowd}",
            f"crashes: {0 if self.is_alive else 1}; bugs {self.bugs}, tracebacks {self.tracebacks}",
            f"refusals told: {self.refusals_told}; the same kind at most {self.kinds_told_most} times",
            f"resident memory: {_mib(self.resident_before)} before, {_mib(self.resident_connected)} with the idle,",
            f"{_mib(self.resident_max)} at most, {_mib(self.resident_after)} after",
            f"it may grow by {_mib(self.growth_max)} beyond what idle connections take",
            f"meanwhile {len(self.work_s)} rounds of work by librdkafka: median {_median(self.work_s):.3f} s,",
            f"slowest {slowest:.2f} s, errors: {dict(self.work_errors) or 'none'}",
            f"objections: {'; '.join(self.objections) or 'none'}",
        ]
        return "\n".join(lines)


def run(
    frames: int,
    *,
    seed: int = 1,
    idle: int = 10_000,
    unread: int = 50,
    slow: int = 200,
    heavy: int = 0,
    megabytes: int = 64,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """`tell` is called every few seconds; `megabytes` are what clients ask for that read no answers."""
    raise_file_limit()
    outcome = Outcome(unread=unread)
    with Cluster(nodes=1, overrides=_SETTINGS) as cluster:
        node = cluster.node(1)
        listener = load(node.config_path).listener(PLAINTEXT)
        assert listener is not None
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=1, replication_factor=1)
        create_topic(cluster.bootstrap_servers, LARGE, partitions=1, replication_factor=1)
        large_end = fill(cluster.kafka_bootstrap_servers, megabytes)
        with Work(cluster.kafka_bootstrap_servers, outcome.work_s, outcome.work_errors) as work:
            work.wait_for_rounds(5)
            outcome.resident_before = outcome.resident_max = node.resident_bytes()
            crowd = Crowd(listener.port, large_end, idle=idle, unread=unread, slow=slow, heavy=heavy)
            began = time.monotonic()
            asyncio.run(_Bombardment(listener.port, frames, seed, node, crowd, outcome, tell).run())
            outcome.seconds = time.monotonic() - began
            work.wait_for_rounds(3)
        outcome.resident_after, outcome.is_alive = node.resident_bytes(), node.is_running
        with Admin(cluster.bootstrap_servers) as admin:
            assert sorted(admin.list_topics()) == [LARGE, TOPIC], "somebody changed the topics"
        _look_at_log(node.log_path.read_text(), outcome)
    return outcome


def raise_file_limit() -> None:
    """Ten thousand connections have an end in this process, too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _look_at_log(text: str, outcome: Outcome) -> None:
    told = [line for line in text.splitlines() if '"event": "refused"' in line]
    kinds = Counter(re.sub(r"\d+", "#", line.partition('"reason": ')[2].partition('"}')[0]) for line in told)
    outcome.refusals_told, outcome.kinds_told_most = len(told), max(kinds.values(), default=0)
    outcome.tracebacks, outcome.bugs = text.count("Traceback"), text.count('"event": "bug"')


class _Bombardment:
    def __init__(
        self,
        port: int,
        frames: int,
        seed: int,
        node: NodeProcess,
        crowd: Crowd,
        outcome: Outcome,
        tell: Callable[[Outcome], None],
    ) -> None:
        self._port = port
        self._goal = frames
        self._seed = seed
        self._process = psutil.Process(node.pid)
        self._crowd = crowd
        self._outcome = outcome
        self._tell = tell
        self._next = 0

    async def run(self) -> None:
        garbage = Garbage(await self._served())
        self._outcome.pairs = len(garbage.pairs)
        await self._crowd.connect_idle()
        await asyncio.sleep(1)  # The last of them are accepted meanwhile; the figure is no condition.
        self._outcome.resident_connected = self._process.memory_info().rss
        watching = asyncio.create_task(self._watch())
        async with self._crowd:
            self._outcome.idle = self._crowd.idle_count
            workers = [asyncio.create_task(self._shoot(garbage, Random(f"{self._seed} {n}"))) for n in range(WORKERS)]
            await asyncio.gather(*workers)
            await self._crowd.rounds_done()
            self._outcome.idle_at_the_end = await self._crowd.idle_that_answer()
            self._outcome.crowd = str(self._crowd)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        self._measure()

    async def _served(self) -> list[ApiKey]:
        line = await Line.open(self._port)
        assert await line.ask(b"".join(encode_request(ApiVersionsRequest(), 0, 1, "garbage")), 10) == "answered"
        line.close()
        _, response = decode_response(ApiVersionsResponse, 0, memoryview(line.answer))
        return [ApiKey(each.api_key) for each in response.api_keys]

    async def _shoot(self, garbage: Garbage, chance: Random) -> None:
        while self._next < self._goal:
            # The node may be busy with others.
            with suppress(OSError):
                line = await Line.open(self._port)
                try:
                    while await self._one(line, garbage, chance) == "answered":
                        pass
                finally:
                    line.close()

    async def _one(self, line: Line, garbage: Garbage, chance: Random) -> str:
        if self._next >= self._goal:
            return "no more"
        number, self._next = self._next, self._next + 1
        kind, frame = garbage.frame(number, chance)
        end = await line.ask(frame, UNFINISHED_S if kind is Damage.SIZE else ANSWER_DEADLINE_S)
        self._outcome.frames += 1
        self._outcome.ends[kind, end] += 1
        return end

    def _measure(self) -> None:
        self._outcome.resident_max = max(self._outcome.resident_max, self._process.memory_info().rss)

    async def _watch(self) -> None:
        began = time.monotonic()
        for tick in range(sys.maxsize):
            self._measure()
            self._outcome.seconds = time.monotonic() - began
            if tick % 100 == 99:
                self._tell(self._outcome)
            await asyncio.sleep(0.05)


def _median(values: list[float]) -> float:
    return statistics.median(values or [0.0])


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    for name, count, what in (
        ("idle", 10_000, "connections that do nothing"),
        ("unread", 50, "connections that read no answers"),
        ("slow", 200, "connections that send a byte a second"),
        ("heavy", 0, "times three connections with requests of 60,000 partitions: they take 20 MiB each"),
    ):
        parser.add_argument(f"--{name}", type=int, default=count, help=what)
    given = parser.parse_args()

    def tell(outcome: Outcome) -> None:
        print(
            f"{outcome.frames:>9,} of {given.frames:,} frames, {outcome.seconds:4.0f} s, {len(outcome.work_s)} rounds"
            f" of work, resident {_mib(outcome.resident_max)} at most",
            flush=True,
        )

    outcome = run(
        given.frames,
        seed=given.seed,
        idle=given.idle,
        unread=given.unread,
        slow=given.slow,
        heavy=given.heavy,
        tell=tell,
    )
    print(outcome)
    return 1 if outcome.objections else 0


if __name__ == "__main__":
    sys.exit(main())
