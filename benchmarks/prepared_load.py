"""The load that costs next to nothing: one produce request, encoded once, over a bare socket again and again.

`python -m benchmarks.prepared_load` prints one JSON object, as `kafka_load.py` does.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Final

import typer

from benchmarks.kafka_load import (
    DEADLINE_S,
    VALUE_BYTES,
    WARM_UP_RECORDS,
    Acks,
    BatchBytes,
    Flow,
    Partition,
    Records,
    Servers,
    Topic,
    measured,
    produced_by,
    run_load,
)
from benchmarks.lone_record import VERSION, produce_frame
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kraft.wire.schema.produce import ProduceResponse

MODULE: Final = "benchmarks.prepared_load"

IN_FLIGHT: Final = 5
"""Requests at once on the connection: as many as Kafka's own producer has, and an idempotent one may have."""

_METADATA_VERSION: Final = 9
_START_DEADLINE_S: Final = 30.0
_RETRY_S: Final = 0.05
_RECEIVED_BYTES_MAX: Final = 64 << 10

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Refused(Exception):
    """A request was refused, or there was no leader to take it."""


def produce(servers: str, topic: str, records: int, batch_bytes: int, acks: int = 1, partition: int = 0) -> Flow:
    """Produce whole batches into one partition, at least so many records, after some that are not counted."""
    return produced_by((MODULE,), servers, topic, records, batch_bytes, acks, partition)


def produce_at(servers: str, topic: str, records: int, batch_bytes: int, acks: int, batches_per_s: float) -> Flow:
    """Produce whole batches into partition 0 at a fixed rate; one alone comes before that and is not counted."""
    place = (servers, topic, str(records), str(batch_bytes))
    options = ("--acks", str(acks), "--partition", "0", "--rate", str(batches_per_s))
    return Flow(**run_load(MODULE, *place, *options, records=records))


# --- the process -------------------------------------------------------------------------------------------------


@app.command()
def produce_here(
    servers: Servers,
    topic: Topic,
    records: Records,
    batch_bytes: BatchBytes,
    acks: Acks,
    partition: Partition,
    rate: Annotated[float | None, typer.Option(help="Batches a second; without, as fast as it goes.")] = None,
) -> None:
    try:
        batch, batch_records = largest_batch(batch_bytes)
        frame = produce_frame(topic, acks, batch, partition)
        with closing(_Connection(_leader(servers, topic, partition))) as connection:
            _begin(connection, frame)
            before = math.ceil(WARM_UP_RECORDS / batch_records) if rate is None else 0
            counted = math.ceil(records / batch_records)
            _check(_exchange(connection, frame, before))
            # The one that began counts for those before, too.
            with measured(counted * batch_records, (1 + before) * batch_records):
                responses = _exchange(connection, frame, counted, rate)
            _check(responses)
    except (OSError, ProtocolError, Refused) as failed:
        raise SystemExit(str(failed)) from None


def largest_batch(batch_bytes: int) -> tuple[bytes, int]:
    """Return a batch of at most that size, but of one record at least, and the number of its records."""
    record = Record(-1, time.time_ns() // 1_000_000, None, b"x" * VALUE_BYTES)
    count = max(1, batch_bytes // VALUE_BYTES)
    while len(batch := build_batch([record] * count)) > batch_bytes and count > 1:
        count -= 1
    return batch, count


def _begin(connection: _Connection, frame: bytes) -> None:
    """Send the request until it is accepted: a new leader may not know yet that it leads. Raises Refused."""
    until_s = time.monotonic() + _START_DEADLINE_S
    while True:
        error = _error(*_exchange(connection, frame, 1))
        if error is ErrorCode.NONE:
            return
        if not error.retriable or time.monotonic() > until_s:
            raise Refused(f"the first request was refused: {error.name}")
        time.sleep(_RETRY_S)


def _exchange(connection: _Connection, frame: bytes, requests: int, rate_hz: float | None = None) -> list[bytes]:
    """Send the request so many times, and return the responses, which nobody has looked at yet."""
    responses: list[bytes] = []
    began_s = time.perf_counter()
    for number in range(requests):
        if number >= IN_FLIGHT:
            responses.append(connection.response())
        if rate_hz is not None:
            time.sleep(max(0.0, began_s + number / rate_hz - time.perf_counter()))
        connection.send(frame)
    while len(responses) < requests:
        responses.append(connection.response())
    return responses


def _check(responses: Sequence[bytes]) -> None:
    errors = [error for error in map(_error, responses) if error is not ErrorCode.NONE]
    if errors:
        raise Refused(f"{len(errors)} of {len(responses)} requests were refused: {errors[0].name}")


def _error(response: bytes) -> ErrorCode:
    (topic,) = decode_response(ProduceResponse, VERSION, response)[1].responses
    (partition,) = topic.partition_responses
    return ErrorCode(partition.error_code)


def _leader(servers: str, topic: str, partition: int) -> str:
    """Return the address of the partition's leader, as soon as one of the servers knows it. Raises Refused."""
    until_s = time.monotonic() + _START_DEADLINE_S
    while True:
        for server in servers.split(","):
            if (found := _leader_known_to(server, topic, partition)) is not None:
                return found
        if time.monotonic() > until_s:
            raise Refused(f"no leader of partition {partition} was named within {_START_DEADLINE_S:.0f} s")
        time.sleep(_RETRY_S)


def _leader_known_to(server: str, topic: str, partition: int) -> str | None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    with closing(_Connection(server)) as connection:
        connection.send(b"".join(encode_request(request, _METADATA_VERSION, correlation_id=1, client_id="prepared")))
        _, known = decode_response(MetadataResponse, _METADATA_VERSION, connection.response())
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in known.brokers}
    (described,) = known.topics
    leaders = {each.partition_index: each.leader_id for each in described.partitions}
    return addresses.get(leaders.get(partition, -1))


class _Connection:
    """A connection to one server. Each call waits for DEADLINE_S at most, and raises OSError."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def response(self) -> bytes:
        """Return the next response, without its size."""
        while len(self._unread) < (end := SIZE_BYTES + int.from_bytes(self._unread[:SIZE_BYTES], "big")):
            received = self._socket.recv(_RECEIVED_BYTES_MAX)
            if not received:
                raise ConnectionError("the broker closed the connection")
            self._unread += received
        response, self._unread = self._unread[SIZE_BYTES:end], self._unread[end:]
        return response

    def close(self) -> None:
        self._socket.close()


if __name__ == "__main__":
    app(prog_name=f"python -m {MODULE}")
