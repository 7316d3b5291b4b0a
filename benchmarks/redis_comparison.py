"""Log lines through Redis lists, Redis streams and a node of ours, a reader that pauses, and what is lost by kill -9.

The reader pauses while all lines are written, so the server holds them all; then it reads them. Redis is Debian's, in
three ways: nothing on disk, and with its append-only file synced once a second, as a list and as a stream. Its clients
here are a socket and Redis's own protocol, many commands in one write, which is more than its libraries reach.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Protocol

import typer

from benchmarks.cpu_clock import process_cpu_s
from benchmarks.report import Cell, Output, Report, print_report, say
from benchmarks.servers import resident_mib
from kraft.client import Consumer, KraftError, Producer, TopicPartition
from kraft.local.free_ports import ReservedPorts
from kraft.testing import Cluster
from tests.support.records import create_topic
from tests.support.waiting import until

LINES: Final = 300_000
LINE_BYTES: Final = 200
AT_ONCE: Final = 500
DEADLINE_S: Final = 60.0
_JOIN_MS: Final = 5_000
_KEY: Final = "logs"
_GROUP: Final = "readers"


class Broken(Exception):
    """The server is gone."""


class Queue(Protocol):
    """What lines go through. Each call blocks. Raises Broken."""

    name: str

    @property
    def pid(self) -> int: ...

    def write(self, lines: Sequence[bytes]) -> None:
        """Write the lines, and wait for the acknowledgement of all."""

    def read(self) -> int:
        """Read some lines, tell the server that they are processed, and return how many; 0 at the end."""

    def read_and_die(self) -> None:
        """Read some lines, and end before they are processed."""

    def kill(self) -> None:
        """Kill the server with SIGKILL."""

    def restart(self) -> None:
        """Start the server again after it was killed."""

    def held(self) -> int:
        """Return how many lines a reader can still get."""

    def close(self) -> None: ...


class Redis:
    """A connection to a Redis: commands in its protocol, several in one write."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = self._socket.makefile("rb", 1 << 20)

    def calls(self, commands: Sequence[Sequence[bytes]]) -> list[object]:
        """Return the answers. Raises Broken."""
        sent = b"".join(
            b"*%d\r\n%b" % (len(each), b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in each))
            for each in commands
        )
        try:
            self._socket.sendall(sent)
            return [self._answer() for _ in commands]
        except (OSError, ValueError) as error:
            # A ValueError is that of a connection that is closed here.
            raise Broken(str(error)) from None

    def call(self, *command: bytes) -> object:
        return self.calls([command])[0]

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def _answer(self) -> object:
        line = self._input.readline()
        if not line.endswith(b"\r\n"):
            raise Broken("the connection ended")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise Broken(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else self._input.read(int(text) + 2)[:-2]
        if kind == b"*":
            return None if text == b"-1" else [self._answer() for _ in range(int(text))]
        return text


class RedisQueue:
    """A list or a stream of a Redis process with files in a directory of its own."""

    def __init__(self, directory: Path, port: int, *, append_only: bool, is_stream: bool) -> None:
        kind, disk = "stream" if is_stream else "list", "everysec" if append_only else "no"
        self.name = f"Redis {kind}, appendonly {disk}"
        self._port = port
        self._is_stream = is_stream
        self._command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
        self._command += ["--save", "", "--appendonly", "yes" if append_only else "no", "--appendfsync", "everysec"]
        self._redis, self._process = self._started()
        if is_stream:
            self._redis.call(b"XGROUP", b"CREATE", _KEY.encode(), _GROUP.encode(), b"0", b"MKSTREAM")

    @property
    def pid(self) -> int:
        return self._process.pid

    def write(self, lines: Sequence[bytes]) -> None:
        if self._is_stream:
            self._redis.calls([(b"XADD", _KEY.encode(), b"*", b"line", each) for each in lines])
        else:
            self._redis.call(b"LPUSH", _KEY.encode(), *lines)

    def read(self) -> int:
        if not self._is_stream:
            answers = self._redis.calls([(b"BRPOP", _KEY.encode(), b"0.01")] * min(AT_ONCE, max(1, self.held())))
            return sum(each is not None for each in answers)
        ids = self._next_ids()
        if ids:
            self._redis.calls([(b"XACK", _KEY.encode(), _GROUP.encode(), *ids), (b"XDEL", _KEY.encode(), *ids)])
        return len(ids)

    def read_and_die(self) -> None:
        if self._is_stream:
            self._next_ids()
        else:
            self._redis.calls([(b"BRPOP", _KEY.encode(), b"0.01")] * AT_ONCE)
        self._redis.close()
        self._redis = Redis(self._port)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def restart(self) -> None:
        self._redis.close()
        self._redis, self._process = self._started()

    def held(self) -> int:
        found = self._redis.call(b"XLEN" if self._is_stream else b"LLEN", _KEY.encode())
        assert isinstance(found, int)
        return found

    def close(self) -> None:
        self._redis.close()
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def _next_ids(self) -> list[bytes]:
        asked = (b"XREADGROUP", b"GROUP", _GROUP.encode(), b"reader", b"COUNT", b"%d" % AT_ONCE)
        answer = self._redis.call(*asked, b"STREAMS", _KEY.encode(), b">")
        if not isinstance(answer, list):
            return []
        return [entry[0] for entry in answer[0][1]]

    def _started(self) -> tuple[Redis, subprocess.Popen[bytes]]:
        process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, "Redis does not answer", DEADLINE_S)
        return Redis(self._port), process

    def _answers(self) -> bool:
        try:
            redis = Redis(self._port)
        except OSError:
            return False
        try:
            return redis.call(b"PING") == b"PONG"
        except Broken:
            # It loads its file.
            return False
        finally:
            redis.close()


class KraftQueue:
    """A topic of one partition on one node."""

    def __init__(self, durability: str) -> None:
        self.name = f"kraft, {durability}"
        self._cluster = Cluster(nodes=1, overrides={"log.durability": durability})
        self._cluster.__enter__()
        create_topic(self._cluster.bootstrap_servers, _KEY, partitions=1, replication_factor=1)
        self._place = TopicPartition(_KEY, 0)
        self._producer = Producer(self._cluster.bootstrap_servers, linger_ms=0)
        self._consumer: Consumer | None = None
        # The reader is there before the lines, as that of Redis is.
        self._reader().poll_batches(_JOIN_MS)

    @property
    def pid(self) -> int:
        return self._cluster.node(1).pid

    def write(self, lines: Sequence[bytes]) -> None:
        try:
            self._producer.produce_many(_KEY, lines).result(DEADLINE_S)
        except KraftError as error:
            raise Broken(str(error)) from None

    def read(self) -> int:
        consumer = self._reader()
        found = sum(len(each.columns.offsets) for each in consumer.poll_batches(_JOIN_MS, AT_ONCE))
        if found:
            consumer.commit()
        return found

    def read_and_die(self) -> None:
        self._reader().poll_batches(_JOIN_MS, AT_ONCE)
        self._forget_reader()

    def kill(self) -> None:
        self._cluster.node(1).kill()

    def restart(self) -> None:
        self._forget_reader()
        self._cluster.start()
        self._cluster.wait_ready()

    def held(self) -> int:
        reader = self._reader()
        committed = reader.committed([self._place])[self._place]
        return reader.end_offsets([self._place])[self._place] - (0 if committed is None else committed.offset)

    def close(self) -> None:
        self._forget_reader()
        self._producer.close(0)
        self._cluster.__exit__(None, None, None)

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                self._cluster.bootstrap_servers,
                group_id=_GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            self._consumer.subscribe(_KEY)
        return self._consumer

    def _forget_reader(self) -> None:
        if self._consumer is not None:
            self._consumer.close(only_processed=True)
            self._consumer = None


def lines_of(count: int) -> Iterator[list[bytes]]:
    """Yield lines, some at a time, of 200 bytes with little in common."""
    for first in range(0, count, AT_ONCE):
        yield [
            f"{number:012d} GET /orders/{number * 7919 % 99_991} 200 {number % 89} ms".encode().ljust(LINE_BYTES, b"x")
            for number in range(first, min(first + AT_ONCE, count))
        ]


def measured(queue: Queue, lines: int) -> dict[str, Cell]:
    """Write while the reader pauses, read, and see what is lost."""
    empty_mib, began_cpu_s = resident_mib(queue.pid), process_cpu_s(queue.pid)
    began_s = time.perf_counter()
    for some in lines_of(lines):
        queue.write(some)
    write_s = time.perf_counter() - began_s
    full_mib = resident_mib(queue.pid)
    began_s, read = time.perf_counter(), 0
    while read < lines and (found := queue.read()):
        read += found
    read_s = time.perf_counter() - began_s
    cpu_s = process_cpu_s(queue.pid) - began_cpu_s
    by_reader = _lost_by_reader(queue)
    return {
        "through": queue.name,
        "lines/s in": round(lines / write_s),
        "lines/s out": round(read / read_s),
        "server CPU us/line": round(1e6 * cpu_s / lines, 1),
        "MiB empty": round(empty_mib),
        "MiB while the reader pauses": round(full_mib),
        "lost as the server dies": _lost_by_server(queue, lines),
        "lost as the reader dies": by_reader,
    }


def _lost_by_reader(queue: Queue) -> int:
    before = queue.held()
    for some in lines_of(2 * AT_ONCE):
        queue.write(some)
    queue.read_and_die()
    return before + 2 * AT_ONCE - queue.held()


def _lost_by_server(queue: Queue, lines: int) -> int:
    """Return how many acknowledged lines are missing once a server that was killed amid writes is back."""
    acknowledged, before = 0, queue.held()
    killed = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        for some in lines_of(lines * 10):
            if killed.is_set():
                return
            try:
                queue.write(some)
            except Broken:
                return
            acknowledged += len(some)

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: acknowledged >= lines // 4, "nothing is acknowledged", DEADLINE_S)
    _kill_amid(queue, killed, writer)
    return max(0, before + acknowledged - queue.held())


def _kill_amid(queue: Queue, killed: threading.Event, writer: threading.Thread) -> None:
    # The writer is in the middle of a write.
    queue.kill()
    killed.set()
    queue.restart()
    writer.join(DEADLINE_S)


@contextmanager
def queues() -> Iterator[Iterator[Queue]]:
    """Yield one queue after the other; each ends before the next one begins."""
    directory = Path(tempfile.mkdtemp(prefix="kraft-redis-"))
    reserved = ReservedPorts(3)

    def each() -> Iterator[Queue]:
        for number, (append_only, is_stream) in enumerate(((False, False), (True, False), (True, True))):
            own = directory / str(number)
            own.mkdir()
            yield RedisQueue(own, reserved.ports[number], append_only=append_only, is_stream=is_stream)
        yield KraftQueue("page-cache")
        yield KraftQueue("fsync")

    try:
        yield each()
    finally:
        reserved.release()
        shutil.rmtree(directory, ignore_errors=True)


def main(
    lines: Annotated[int, typer.Option(min=10 * AT_ONCE, help="Lines in each way.")] = LINES,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Compare Redis lists, Redis streams and a node of ours as the buffer of a log pipeline."""
    if shutil.which("redis-server") is None:
        raise typer.BadParameter("there is no redis-server: install Debian's package of that name")
    rows = []
    with queues() as all_queues:
        for queue in all_queues:
            try:
                say(queue.name)
                rows.append(measured(queue, lines))
            finally:
                queue.close()
    notes = (
        f"{lines:,} lines of {LINE_BYTES} bytes, {AT_ONCE} in a write; one writer, one reader, who pauses meanwhile.",
        "Lists: LPUSH of many values, BRPOP many times in one write. Streams: XADD, XREADGROUP, XACK and XDEL.",
        "The server dies by kill -9 amid writes; lost are lines that it had acknowledged.",
        "What a server gave to the kernel outlives kill -9, not a loss of power: everysec and page-cache lose then.",
        "The reader dies with the lines of one read that it has not processed.",
    )
    durability = "appendonly no: in memory; everysec and page-cache: given to the kernel; fsync: on disk"
    print_report(Report(title="A buffer for logs", durability=durability, rows=rows, notes=notes), output)


if __name__ == "__main__":
    typer.run(main)
