"""A listener of Kafka's protocol that answers fetches from a script, or from a list of batches."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from kraft.log.format.record_batch import read_header
from kraft.model.errors import ErrorCode
from kraft.wire.codec import decode
from kraft.wire.frame import decode_request_header, encode_response
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

Answer = Callable[[FetchRequest], FetchResponse | bytes | None]
"""Returns a response, bytes to send as they are, or None to close the connection."""


class FetchListener:
    """Serves every connection in a thread of its own, until the `with` block ends."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[FetchRequest] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        host, port = self._listening.getsockname()
        return f"{host}:{port}"

    def close_connections(self) -> None:
        for connection in self._open:
            connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            while size := connection.recv(4, socket.MSG_WAITALL):
                frame = connection.recv(int.from_bytes(size), socket.MSG_WAITALL)
                header, position = decode_request_header(frame)
                request = decode(FetchRequest, header.api_version, frame, position)
                self.requests.append(request)
                answer = self.answer(request)
                if answer is None:
                    return
                if isinstance(answer, FetchResponse):
                    answer = b"".join(encode_response(answer, header.api_version, header.correlation_id))
                connection.sendall(answer)


def response(records: bytes = b"", code: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    data = PartitionData(
        partition_index=0, error_code=code, high_watermark=-1, aborted_transactions=None, records=records
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=(data,)),))


def from_batches(batches: Sequence[bytes]) -> Answer:
    """Answer with one batch at a time, the one that holds the requested offset."""

    def answer(request: FetchRequest) -> FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        return response(next((each for each in batches if read_header(each).next_offset > offset), b""))

    return answer


def offsets_asked(listener: FetchListener) -> list[int]:
    return [request.topics[0].partitions[0].fetch_offset for request in listener.requests]


def oversized() -> bytes:
    return struct.pack(">i", 1 << 30)
