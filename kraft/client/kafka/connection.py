"""One connection to a listener of Kafka's protocol: requests, answered in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from kraft import __version__
from kraft.client.kafka.versions import ranges_of, version_of
from kraft.log.format.record_batch import Buffer
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.rpc.frame_connection import SIZE_BYTES, FrameConnection
from kraft.rpc.peers import MESSAGE_BYTES_MAX, NotKafka, Unreachable
from kraft.wire.api_keys import response_type
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.versions import Versions

Answer = TypeVar("Answer", bound=Message)

ASKING_VERSIONS: Final = 3
"""Version of the first request. Apache Kafka has it since 2.4."""


class _Awaited(Struct, frozen=True):
    correlation_id: int
    kind: type[Message]
    version: int
    answer: asyncio.Future[Any]


class KafkaConnection:
    """An open connection. Once a request fails with Unreachable, or is cancelled, it has to be closed."""

    def __init__(self, address: str, client_id: str, software: str) -> None:
        """`software` is the name of the program for operators."""
        self.address = address
        self.versions_request: Final = ApiVersionsRequest(
            client_software_name=software, client_software_version=__version__
        )
        """Asks for the versions of the broker, and tells what its client is (KIP-511)."""
        self._client_id = client_id
        self._requests = 0
        self._awaited: deque[_Awaited] = deque()
        self._answers = 0
        self._is_closed = False
        """This end has closed it."""
        self._ended: str | None = None
        """Why the connection has ended."""
        self._may_write = asyncio.Event()
        self._served: Mapping[int, Versions] = {}
        self.frames = FrameConnection(
            frame_bytes_max=MESSAGE_BYTES_MAX, received=self._received, ended=self._end, may_write=self._may_write.set
        )

    @property
    def is_over(self) -> bool:
        return self._ended is not None

    @property
    def is_idle(self) -> bool:
        """True if no response is awaited."""
        return not self._awaited

    async def ask_versions(self) -> ApiVersionsResponse:
        """Learn which versions the broker has. Raises NotKafka, and UNSUPPORTED_VERSION."""
        try:
            answered = await self._send(self.versions_request, ASKING_VERSIONS)
            response: ApiVersionsResponse = await answered
        except Unreachable as error:
            raise NotKafka(self.address, error.reason) from error
        if response.error_code != ErrorCode.NONE:
            code = error_code(response.error_code)
            raise Refusal(code, f"{self.address} refused ApiVersions, the first request of a client: {code.name}")
        self._served = ranges_of(response.api_keys)
        return response

    async def request(self, request: Message) -> Any:
        """Send a request, and return its response. Raises Unreachable, UNSUPPORTED_VERSION, and as `encode_request`."""
        return await (await self.begin(request))

    async def begin(self, request: Message) -> asyncio.Future[Any]:
        """Send a request, when there is room in the connection; the future gets its response, or Unreachable.

        Raises Unreachable, and UNSUPPORTED_VERSION.
        """
        return await self._send(request, version_of(request, self._served))

    async def tell(self, request: Message) -> None:
        """Send a request that gets no response. Raises as `begin` does."""
        await self._write(request, version_of(request, self._served))

    def close(self, reason: str = "the connection is closed") -> None:
        """Close at once; requests that are not answered get Unreachable."""
        self._is_closed = True
        self.frames.abort(reason)

    async def _send(self, request: Message, version: int) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # It may end before anybody waits for it, or after nobody does.
        answer.add_done_callback(_looked_at)
        kind = response_type(type(request).message_key)
        await self._write(request, version, kind, answer)
        return answer

    async def _write(
        self,
        request: Message,
        version: int,
        kind: type[Message] | None = None,
        answer: asyncio.Future[Any] | None = None,
    ) -> None:
        while self._ended is None and self.frames.is_full:
            self._may_write.clear()
            await self._may_write.wait()
        if self._ended is not None:
            raise Unreachable(self.address, self._ended)
        head, *rest = encode_request(request, version, self._requests + 1, self._client_id)
        self._requests += 1
        if kind is not None and answer is not None:
            self._awaited.append(_Awaited(self._requests, kind, version, answer))
        self.frames.send([memoryview(head)[SIZE_BYTES:], *rest])

    def _received(self, frame: Buffer) -> None:
        if not self._awaited:
            self.close("it sent a response without a request")
            return
        awaited = self._awaited.popleft()
        try:
            correlation_id, response = decode_response(awaited.kind, awaited.version, frame)
        except ProtocolError as error:
            self._awaited.appendleft(awaited)
            self.close(f"its response is not valid: {error}")
            return
        if correlation_id != awaited.correlation_id:
            self._awaited.appendleft(awaited)
            self.close(f"it sent response {correlation_id}, expected {awaited.correlation_id}")
        else:
            self._answers += 1
            if not awaited.answer.done():
                awaited.answer.set_result(response)

    def _end(self, reason: str) -> None:
        if self._answers == 1 and self._awaited and not self._is_closed:
            # Only the question for versions is answered before a login.
            reason = f"{reason} at the first request: it may require a login, with security.protocol=SASL_..."
        self._ended = reason
        self._may_write.set()
        awaited, self._awaited = self._awaited, deque()
        for each in awaited:
            if not each.answer.done():
                each.answer.set_exception(Unreachable(self.address, reason))


def _looked_at(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
