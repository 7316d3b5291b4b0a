"""Thousands of garbage frames for a real node: none is executed, and the node keeps working.

    python -m tests.soak.garbage_runs --frames 1000000

Connections and calls with random bytes go to the CONTROLLER and the GRPC port. Meanwhile topics are created, records
written and read. Checked are: a canary file that an executed pickle would create, the metadata at the end, memory
against the maximum request size, and the duration of the node's work.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc
import psutil

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.local.cluster_files import HOST
from kraft.quorum.pb import raft_pb2
from kraft.rpc.pb import admin_pb2, broker_pb2, controller_pb2, membership_pb2, replication_pb2
from kraft.server.config.loading import load
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.testing import Cluster
from tests.soak.loads import garbage
from tests.soak.loads.node_dialling import dial_as_node

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""The value of socket.request.max.bytes; memory may grow by twice this."""

CALLS_IN: Final = 5
"""One frame in this many is a call; the others go over bare connections."""

OVERSIZED_IN: Final = 2_000
"""One call in this many is above the maximum request size."""

WORKERS: Final = 8
CALL_DEADLINE_S: Final = 5.0
FOLLOW_S: Final = 0.05
"""A method whose stream does not end, if its request is accepted."""

_STEP_PAUSE_S: Final = 0.2
_TOPIC: Final = "unhurt"
_SETTINGS: Final = {"socket.request.max.bytes": str(REQUEST_BYTES_MAX), "auto.create.topics.enable": "false"}


@dataclass(slots=True)
class Outcome:
    """Result of a run: the frames sent, the node's work meanwhile, and its memory."""

    connections: int = 0
    frames: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    resident_before: int = 0
    resident_max: int = 0
    resident_after: int = 0
    log_bytes: int = 0
    tracebacks: list[str] = field(default_factory=list)
    """The lines of the node's log that hold one."""

    refusals_logged: int = 0
    executed: bool = False
    topics_unexpected: list[str] = field(default_factory=list)
    brokers: int = 0
    work_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sent(self) -> int:
        return self.frames + self.calls.total()

    @property
    def resident_growth(self) -> int:
        return self.resident_max - self.resident_before

    def __str__(self) -> str:
        slowest = max(self.work_s, default=0.0)
        calls = ", ".join(f"{count:,} {code}" for code, count in self.calls.most_common())
        lines = (
            f"{self.sent:,} frames in {self.seconds:.0f} s: {self.frames:,} in {self.connections:,} connections",
            f"and {self.calls.total():,} calls, which ended with {calls}",
            f"executed: {'YES' if self.executed else 'nothing'}",
            f"topics that this run did not create: {self.topics_unexpected or 'none'}; brokers: {self.brokers}",
            f"resident memory: {_mib(self.resident_before)} before, {_mib(self.resident_max)} at most",
            f"and {_mib(self.resident_after)} after; it may grow by {_mib(2 * REQUEST_BYTES_MAX)}",
            f"log: {self.log_bytes:,} bytes, {self.refusals_logged} refusals logged, {len(self.tracebacks)} tracebacks",
            f"meanwhile {len(self.work_s)} rounds of work: a topic created, written to and read",
            f"median {statistics.median(self.work_s or [0.0]):.2f} s, slowest {slowest:.2f} s",
            *self.tracebacks,
        )
        return "\n".join(lines)


def run(frames: int, *, seed: int = 1, is_introduced: bool = False, tell: Callable[[Outcome], None]) -> Outcome:
    """Send garbage; `tell` is called every two seconds. Raises the error of the node's work, if it fails.

    With `is_introduced` the calls are authenticated as a node's, so that methods for nodes read them, too.
    """
    with (
        TemporaryDirectory(prefix="kraft-garbage-") as directory,
        Cluster(nodes=1, overrides=_SETTINGS) as cluster,
    ):
        canary = Path(directory) / "executed"
        outcome = Outcome()
        node = cluster.node(1)
        config = load(node.config_path)
        ports = [listener.port for name in (CONTROLLER, GRPC) if (listener := config.listener(name)) is not None]
        with _Work(cluster.bootstrap_servers, outcome) as work:
            work.wait_for_steps(3)
            outcome.resident_before = outcome.resident_max = node.resident_bytes()
            began = time.monotonic()
            dial = dial_as_node(node.config_path) if is_introduced else None
            asyncio.run(_Bombardment(ports, frames, seed, canary, node.pid, outcome, tell, dial).run())
            outcome.seconds = time.monotonic() - began
            work.wait_for_steps(2)
        outcome.resident_after = node.resident_bytes()
        outcome.executed = canary.exists()
        text = node.log_path.read_text()
        outcome.log_bytes = len(text)
        outcome.tracebacks = [line for line in text.splitlines() if "Traceback" in line]
        outcome.refusals_logged = text.count('"event": "peer refused"')
        with Admin(cluster.bootstrap_servers) as admin:
            outcome.topics_unexpected = [name for name in admin.list_topics() if not name.startswith(_TOPIC)]
            outcome.brokers = len(admin.describe_cluster().brokers)
        return outcome


class _Work:
    """Create a topic, write to it and read it, repeatedly, until the end."""

    def __init__(self, bootstrap_servers: str, outcome: Outcome) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._outcome = outcome
        self._ended = threading.Event()
        self._stepped = threading.Condition()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="work")

    def __enter__(self) -> _Work:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait_for_steps(self, count: int) -> None:
        with self._stepped:
            goal = len(self._outcome.work_s) + count
            self._stepped.wait_for(lambda: len(self._outcome.work_s) >= goal or self._error is not None, timeout=60)
            if len(self._outcome.work_s) < goal:
                raise self._error or TimeoutError("the node's work does not continue")

    def _run(self) -> None:
        try:
            with (
                Admin(self._bootstrap_servers) as admin,
                Producer(self._bootstrap_servers, acks="all") as producer,
                Consumer(self._bootstrap_servers) as consumer,
            ):
                while not self._ended.wait(_STEP_PAUSE_S):
                    self._step(admin, producer, consumer)
        except BaseException as error:  # noqa: BLE001  The main thread raises it.
            self._error = error
        with self._stepped:
            self._stepped.notify_all()

    def _step(self, admin: Admin, producer: Producer, consumer: Consumer) -> None:
        began = time.monotonic()
        topic = f"{_TOPIC}-{len(self._outcome.work_s)}"
        admin.create_topic(topic, 1, 1)
        producer.produce_many(topic, [b"value"], [b"key"]).result(30)
        place = TopicPartition(topic, 0)
        assert consumer.end_offsets([place])[place] == 1, f"{topic} lost its record"
        with self._stepped:
            self._outcome.work_s.append(time.monotonic() - began)
            self._stepped.notify_all()


class _Bombardment:
    def __init__(
        self,
        ports: list[int],
        frames: int,
        seed: int,
        canary: Path,
        pid: int,
        outcome: Outcome,
        tell: Callable[[Outcome], None],
        dial: Callable[[str, Sequence[tuple[str, Any]]], Any] | None,
    ) -> None:
        self._dial = dial
        self._ports = ports
        self._goal = frames
        self._seed = seed
        self._canary = canary
        self._process = psutil.Process(pid)
        self._outcome = outcome
        self._tell = tell

    async def run(self) -> None:
        workers = [asyncio.create_task(self._connect(Random(f"{self._seed} {n}"))) for n in range(WORKERS)]
        workers += [asyncio.create_task(self._call(port, Random(f"{self._seed} {port}"))) for port in self._ports]
        telling = asyncio.create_task(self._watch())
        try:
            await asyncio.gather(*workers)
        finally:
            for task in (*workers, telling):
                task.cancel()
            await asyncio.gather(*workers, telling, return_exceptions=True)
        self._measure()

    def _measure(self) -> None:
        self._outcome.resident_max = max(self._outcome.resident_max, self._process.memory_info().rss)

    async def _watch(self) -> None:
        began = time.monotonic()
        for tick in range(sys.maxsize):
            self._measure()
            self._outcome.seconds = time.monotonic() - began
            if tick % 20 == 19:
                self._tell(self._outcome)
            await asyncio.sleep(0.1)

    async def _connect(self, chance: Random) -> None:
        while self._outcome.frames < self._goal * (CALLS_IN - 1) // CALLS_IN:
            frames = garbage.connection(chance, self._canary)
            # The node may close the connection in the middle of it.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CALL_DEADLINE_S):
                    await self._send(chance.choice(self._ports), frames, waits=chance.random() < 0.3)
            self._outcome.connections += 1

    async def _send(self, port: int, frames: list[bytes], *, waits: bool) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            for frame in frames:
                self._outcome.frames += 1
                writer.write(frame)
                await writer.drain()
            if waits:
                await reader.read(100)
        finally:
            writer.transport.abort()

    async def _call(self, port: int, chance: Random) -> None:
        methods = list(_methods())
        goal = self._goal // CALLS_IN // len(self._ports)
        address = f"{HOST}:{port}"
        options = [("grpc.max_send_message_length", 4 * REQUEST_BYTES_MAX), ("grpc.use_local_subchannel_pool", 1)]
        async with AsyncExitStack() as channels:
            channel: Any = await channels.enter_async_context(grpc.aio.insecure_channel(address, options=options))
            introducer = None
            if self._dial is not None:
                # It makes no calls of bytes, but knows what to say with one.
                introducer = (await channels.enter_async_context(self._dial(address, options)))._introducer
            for number in range(goal):
                method, is_stream = chance.choice(methods)
                # A well-formed message of a client's method may succeed: clients may create a topic named "a".
                for_nodes_only = "/kraft.v1.Broker/" not in method and "/kraft.v1.Admin/" not in method
                message = garbage.message(chance, self._canary, well_formed=for_nodes_only)
                if number % OVERSIZED_IN == OVERSIZED_IN - 1:
                    message = bytes(REQUEST_BYTES_MAX + 1)
                self._outcome.calls[await self._one_call(channel, method, is_stream, message, introducer)] += 1

    async def _one_call(self, channel: Any, method: str, is_stream: bool, message: bytes, introducer: Any) -> str:
        """Make one call; return how it ended. A stream that does not end is cancelled after a moment."""
        try:
            metadata = None
            if introducer is not None:
                deadline = asyncio.get_running_loop().time() + CALL_DEADLINE_S
                _, metadata = await introducer.show(method, deadline)
            if not is_stream:
                await channel.unary_unary(method)(message, timeout=CALL_DEADLINE_S, metadata=metadata)
                return "OK"
            call = channel.stream_stream(method)(
                iter([message]), timeout=0.05 if "Follow" in method else CALL_DEADLINE_S, metadata=metadata
            )
            async for _ in call:
                break
            call.cancel()
        except grpc.aio.AioRpcError as error:
            # The local gRPC reports this if the stream ended before it could write to it.
            return "BROKEN OFF" if error.details() == "Internal error from Core" else error.code().name
        return "OK"


def _methods() -> Iterator[tuple[str, bool]]:
    """Return every method of every service, also of the other port, and whether it streams in either direction."""
    for file in (raft_pb2, admin_pb2, broker_pb2, controller_pb2, membership_pb2, replication_pb2):
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                yield f"/{service.full_name}/{method.name}", method.client_streaming or method.server_streaming


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--introduced", action="store_true", help="call as a node, so that no call is refused unread")
    arguments = parser.parse_args()

    def tell(outcome: Outcome) -> None:
        print(
            f"{outcome.sent:>9,} of {arguments.frames:,} frames, {outcome.seconds:4.0f} s, {len(outcome.work_s)} rounds"
            f" of work, resident {_mib(outcome.resident_max)} at most",
            flush=True,
        )

    outcome = run(arguments.frames, seed=arguments.seed, is_introduced=arguments.introduced, tell=tell)
    print(outcome)
    is_well = not outcome.executed and not outcome.topics_unexpected and outcome.brokers == 1
    return 0 if is_well and outcome.resident_growth <= 2 * REQUEST_BYTES_MAX and not outcome.tracebacks else 1


if __name__ == "__main__":
    sys.exit(main())
