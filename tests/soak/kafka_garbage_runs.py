"""Millions of garbage frames for the PLAINTEXT port of a real node: other clients do not notice, memory stays bounded.

    python -m tests.soak.kafka_garbage_runs --frames 1000000

Each damaged frame is sent after all earlier requests of its connection have been answered. Other clients send a byte
per second, do nothing, read no responses, or, optionally, send the requests that need most memory. Meanwhile librdkafka
writes and reads on connections of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import psutil

from kraft.client import Admin
from kraft.local.node_process import NodeProcess
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.server.config.loading import load
from kraft.server.config.values import PLAINTEXT
from kraft.testing import Cluster
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.soak.loads.kafka_garbage import Damage, Garbage
from tests.soak.loads.kafka_garbage_crowd import Crowd, Line
from tests.soak.loads.kafka_garbage_outcome import REQUEST_BYTES_MAX, Outcome, described
from tests.soak.loads.kafka_garbage_work import LARGE, TOPIC, Work, fill
from tests.support.records import create_topic

WORKERS: Final = 32
ANSWER_DEADLINE_S: Final = 0.5
"""After this time a frame counts as unanswered: acks=0 has no response, and a fetch may wait."""

UNFINISHED_S: Final = 0.02
_SETTINGS: Final = {
    "socket.request.max.bytes": str(REQUEST_BYTES_MAX),
    "auto.create.topics.enable": "false",
    # Idle connections must still be open at the end, however long the run takes.
    "connections.max.idle.ms": "7200000",
}


def run(
    frames: int,
    *,
    seed: int = 1,
    idle: int = 10_000,
    unread: int = 50,
    slow: int = 200,
    unfinished: int = 0,
    heavy: int = 0,
    megabytes: int = 64,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Send garbage; `tell` is called every few seconds; `megabytes` is the size of the responses that nobody reads."""
    raise_file_limit()
    outcome = Outcome()
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
            crowd = Crowd(
                listener.port, large_end, idle=idle, unread=unread, slow=slow, unfinished=unfinished, heavy=heavy
            )
            began = time.monotonic()
            asyncio.run(_Bombardment(listener.port, frames, seed, node, crowd, outcome, tell).run())
            outcome.seconds = time.monotonic() - began
            work.wait_for_rounds(3)
        outcome.resident_after, outcome.is_alive = node.resident_bytes(), node.is_running
        with Admin(cluster.bootstrap_servers) as admin:
            # A request for a coordinator creates this one.
            topics = set(admin.list_topics()) - {OFFSETS_TOPIC}
            assert topics == {LARGE, TOPIC}, "the topics changed"
        outcome.log.read(node.log_path.read_text())
    return outcome


def raise_file_limit() -> None:
    """Raise the limit of open files: this process has one end of ten thousand connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
        self._outcome.served = described((key.name, version) for key, version in garbage.pairs)
        await self._crowd.connect_idle()
        await asyncio.sleep(1)  # The last of them are accepted meanwhile; the figure is only printed.
        self._outcome.resident_connected = self._process.memory_info().rss
        _forget_peak(self._process.pid)
        cpu_before = self._process.cpu_times()
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
        cpu = self._process.cpu_times()
        self._outcome.cpu_s = cpu.user + cpu.system - cpu_before.user - cpu_before.system

    async def _served(self) -> list[ApiKey]:
        line = await Line.open(self._port)
        assert await line.ask(b"".join(encode_request(ApiVersionsRequest(), 0, 1, "garbage")), 10) == "answered"
        line.close()
        _, response = decode_response(ApiVersionsResponse, 0, memoryview(line.answer))
        return [ApiKey(each.api_key) for each in response.api_keys]

    async def _shoot(self, garbage: Garbage, chance: Random) -> None:
        while self._next < self._goal:
            # The node may be busy with other connections.
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
        self._outcome.resident_max = max(
            self._outcome.resident_max, self._process.memory_info().rss, _peak(self._process.pid)
        )

    async def _watch(self) -> None:
        began = time.monotonic()
        for tick in range(sys.maxsize):
            self._measure()
            self._outcome.seconds = time.monotonic() - began
            if tick % 100 == 99:
                self._tell(self._outcome)
            await asyncio.sleep(0.05)


def _forget_peak(pid: int) -> None:
    """Reset VmHWM, so that it is the peak from here on. Source: proc(5), clear_refs."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak(pid: int) -> int:
    """Return the peak of resident memory in bytes, which samples would miss; 0 if the system does not report it."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1_024 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    for name, count, what in (
        ("idle", 10_000, "connections that do nothing"),
        ("unread", 50, "connections that read no answers"),
        ("slow", 200, "connections that send a byte a second"),
        ("unfinished", 0, "connections that send the largest request but for its end"),
        ("heavy", 0, "times three connections with requests of as many partitions as may be named"),
    ):
        parser.add_argument(f"--{name}", type=int, default=count, help=what)
    given = parser.parse_args()

    def tell(outcome: Outcome) -> None:
        print(
            f"{outcome.frames:>9,} of {given.frames:,} frames, {outcome.seconds:4.0f} s, {len(outcome.work_s)} rounds"
            f" of work, resident {outcome.resident_max >> 20} MiB at most",
            flush=True,
        )

    outcome = run(
        given.frames,
        seed=given.seed,
        idle=given.idle,
        unread=given.unread,
        slow=given.slow,
        unfinished=given.unfinished,
        heavy=given.heavy,
        tell=tell,
    )
    print(outcome)
    return 1 if outcome.objections else 0


if __name__ == "__main__":
    sys.exit(main())
