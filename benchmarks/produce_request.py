"""`python -m benchmarks.produce_request`: what one produce request costs, from its bytes to its response.

The frames go through the connection, the decoder, the API, the handler and the log of a broker, in one process: without
a socket, and without a client that takes the same cores. Beside them the bytes alone: copy, checksum and write.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer
from crc32c import crc32c

from benchmarks.led_partition import led_partition
from benchmarks.log_batches import PRODUCER_ID, batches, stamp
from benchmarks.report import Cell, Output, Report, file_system, print_report
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal
from kraft.model.ids import BrokerId, TopicPartition
from kraft.model.refused_for import Refused
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.produce_verification import ProduceVerification
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.connection import ConnectionLimits, KafkaConnection
from kraft.server.kafka_listener.frame_buffer import FrameSizes
from kraft.server.kafka_listener.listener import SCRATCH_BYTES
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer, ReceiveLimits
from kraft.server.kafka_listener.request_times import RequestTimes, TimedRequest
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import encode_request
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROUNDS: Final = 40
REQUESTS: Final = 256
BATCH_BYTES: Final = (1 << 10, 16 << 10, 64 << 10)
ACKS: Final = {"1": 1, "all": -1}
VERSION: Final = 10
"""librdkafka's."""

_TOPIC: Final = "orders"
_BROKER: Final = BrokerId(1)
_FRAME_BYTES_MAX: Final = 100 << 20
_FREE_BYTES_MIN: Final = 1 << 20
_CRC_COVERS_FROM: Final = 21


class _Sink(asyncio.Transport):
    """Counts the responses and drops them. Each is written by itself: a read has one frame."""

    def __init__(self) -> None:
        super().__init__()
        self.responses = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.responses += 1

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_reading(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise RuntimeError("the connection closed: a request of this benchmark is wrong")

    def get_write_buffer_size(self) -> int:
        return 0


class _Listener:
    """The listener's side of the one connection."""

    def __init__(self) -> None:
        self.times = RequestTimes()

    def opened(self, connection: KafkaConnection) -> str | None:
        return None

    def logged_in(self, connection: KafkaConnection) -> str | None:
        return None

    def closed(self, connection: KafkaConnection, refused: Refused | None) -> None:
        pass

    def failed(self, connection: KafkaConnection, error: BaseException) -> None:
        raise error

    def answered_slowly(self, connection: KafkaConnection, request: TimedRequest) -> None:
        raise AssertionError("no request is slow unless it is asked for")

    def unread(self, connection: KafkaConnection, size_bytes: int) -> bool:
        return False


def measure(rounds: int, requests: int, directory: Path | None) -> Report:
    rows: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory(prefix="kraft-benchmark-", dir=directory) as place:
        for size_bytes in BATCH_BYTES:
            sent = [bytes(stamp(each)) for each in islice(batches(size_bytes), requests)]
            frames = {name: [_frame(records, acks) for records in sent] for name, acks in ACKS.items()}
            took_us: dict[str, list[float]] = {name: [] for name in ("bytes", *ACKS)}
            for number in range(-1, rounds):
                # Every other round the other way round, so that a disturbance hits each alike.
                for name in sorted(took_us, reverse=bool(number % 2)):
                    with _in_new_directory(Path(place) / f"{name}-{number}") as path:
                        us = _bytes_alone(path, sent) if name == "bytes" else asyncio.run(_requests(path, frames[name]))
                    # The first round is for the caches to fill.
                    if number >= 0:
                        took_us[name].append(us / requests)
            rows += [_row(size_bytes, name, took_us) for name in ACKS]
        where = file_system(Path(place))
    return Report(
        title="A produce request of one partition, from the bytes received to the response",
        durability="page cache: what is written counts, nothing is synced before it is acknowledged",
        rows=rows,
        notes=[
            f"us: CPU time a request, medians of {rounds} rounds of {requests}, each to a new log on {where}.",
            "bytes: copied from the client's buffer, checksummed and written, and nothing else.",
            "own: us above the bytes; least: the round with the least of them.",
            "An idempotent producer, one frame in each read, no socket.",
        ],
    )


def _row(size_bytes: int, acks: str, took_us: dict[str, list[float]]) -> dict[str, Cell]:
    own_us = [us - bytes_us for us, bytes_us in zip(took_us[acks], took_us["bytes"], strict=True)]
    return {
        "batch": f"{size_bytes >> 10} KiB",
        "acks": acks,
        "us": median(took_us[acks]),
        "bytes us": median(took_us["bytes"]),
        "own us": median(own_us),
        "least own us": min(took_us[acks]) - min(took_us["bytes"]),
    }


@contextmanager
def _in_new_directory(path: Path) -> Iterator[Path]:
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _frame(records: bytes, acks: int) -> bytes:
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=(TopicProduceData(name=_TOPIC, partition_data=(PartitionProduceData(index=0, records=records),)),),
    )
    return b"".join(encode_request(request, VERSION, correlation_id=7, client_id="rdkafka"))


def _bytes_alone(directory: Path, sent: Sequence[bytes]) -> float:
    """Return the CPU time, in us."""
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    descriptor = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    began_ns = time.process_time_ns()
    for records in sent:
        size = len(records)
        scratch[:size] = records
        crc32c(scratch[_CRC_COVERS_FROM:size])
        os.write(descriptor, scratch[:size])
    us = (time.process_time_ns() - began_ns) / 1_000
    os.close(descriptor)
    return us


async def _requests(directory: Path, frames: Sequence[bytes]) -> float:
    """Return the CPU time, in us."""
    partitions = Partitions(lambda _: True)
    partition = led_partition(directory, _TOPIC)
    partitions.add(partition)
    sink = _Sink()
    connection = _connection(_handler(partitions))
    connection.connection_made(sink)
    began_ns = time.process_time_ns()
    for frame in frames:
        size = len(frame)
        connection.get_buffer(-1)[:size] = frame
        connection.buffer_updated(size)
    us = (time.process_time_ns() - began_ns) / 1_000
    last = partition.log.producers[PRODUCER_ID].batches[-1]
    committed = (last.last_offset - last.base_offset + 1) * len(frames)
    if sink.responses != len(frames) or partition.high_watermark != committed:
        raise RuntimeError("not every request was answered, or its records are not committed")
    partition.retire()
    partition.log.release()
    return us


def _handler(partitions: Partitions) -> ProduceHandler:
    verification = ProduceVerification(partitions, _not_asked, is_enabled=True)
    return ProduceHandler(partitions, WaitingAppends(), verification, AwaitedReplicasHandler(partitions))


async def _not_asked(*_: object, **__: object) -> Mapping[TopicPartition, Refusal]:
    raise RuntimeError("no request here belongs to a transaction")


def _connection(handler: ProduceHandler) -> KafkaConnection:
    memory = ListenerMemory(_FRAME_BYTES_MAX)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    limits = ReceiveLimits(FrameSizes(_FRAME_BYTES_MAX), memory.receive, memory.large)
    apis = {ApiKey.PRODUCE: ProduceApi(handler.begin, Leaders(MetadataImage, "PLAINTEXT"), handler.refuse_unknown)}
    return KafkaConnection(
        _Listener(),
        lambda granted: ReceiveBuffer(scratch, limits, granted),
        lambda peer: KafkaRequests(apis, peer, memory.unread),
        ConnectionLimits(idle_s_max=600),
    )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=1)] = ROUNDS,
    requests: Annotated[int, typer.Option(min=1, help="Of each kind, in each round.")] = REQUESTS,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where to write; by default where temporary files go.", exists=True, file_okay=False),
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """CPU time of a produce request, beside that of its bytes."""
    print_report(measure(rounds, requests, directory), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.produce_request")
