"""Latency of produce requests, one after the other, over a bare socket: the broker without the threads of a client."""

from __future__ import annotations

import socket
import time
from typing import Final

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.wire.frame import encode_request
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION: Final = 9
"""The latest that each of the servers knows, the bare loop too."""

WARM_UP: Final = 500

_TIMEOUT_S: Final = 30
_SIZE_BYTES: Final = 4
_RECEIVED_BYTES_MAX: Final = 64 << 10


def latencies_us(address: str, topic: str, requests: int, acks: int, value_bytes: int) -> list[float]:
    """Produce to partition 0, with one record in each request, and return the time of each from send to receive.

    Raises OSError. The first ones, to warm up, are not returned.
    """
    host, _, port = address.rpartition(":")
    batch = build_batch([Record(-1, time.time_ns() // 1_000_000, None, b"x" * value_bytes)])
    frame = produce_frame(topic, acks, batch)
    took_ns: list[int] = []
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(WARM_UP + requests):
            began_ns = time.perf_counter_ns()
            connection.sendall(frame)
            _receive(connection)
            took_ns.append(time.perf_counter_ns() - began_ns)
    return [each / 1_000 for each in took_ns[WARM_UP:]]


def _receive(connection: socket.socket) -> None:
    received = connection.recv(_RECEIVED_BYTES_MAX)
    # Nearly always it comes whole.
    while received and len(received) < _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big"):
        more = connection.recv(_RECEIVED_BYTES_MAX)
        received = received + more if more else b""
    if not received:
        raise ConnectionError("the broker closed the connection")


def produce_frame(topic: str, acks: int, batch: bytes, partition: int = 0) -> bytes:
    """Return a produce request of one batch, as it is sent."""
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=_TIMEOUT_S * 1_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )
    return b"".join(encode_request(request, VERSION, correlation_id=7, client_id="lone"))
