"""Decodes one request, calls its API and encodes the response. Refuses unknown APIs and versions.

An API is a function of a decoded message; it returns a response message, or None for no response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import thread_time_ns
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.model.clients import TEXT_CHARACTERS_MAX, ClientWords
from kraft.model.errors import ErrorCode
from kraft.model.principal import ANONYMOUS, Principal
from kraft.model.refused_for import RefusedFor
from kraft.model.request_context import RequestContext
from kraft.rpc.frame_connection import TakeOver
from kraft.rpc.frame_exchange import HELLO_KEY, refusing
from kraft.rpc.introductions import Unintroduced
from kraft.server.kafka_listener.answering import CloseConnection, HasToWait, TakenOver
from kraft.server.kafka_listener.introduced_client import IntroducedClient
from kraft.server.kafka_listener.kept_frame import KeptFrame
from kraft.server.kafka_listener.repeated_refusals import RepeatedRefusals
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.server.loop.budget import BeyondBudget, Budget
from kraft.server.loop.unread_responses import UnreadResponses
from kraft.server.replica.waiting_appends import WaitingClient
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.api_versions import advertised, is_served
from kraft.wire.codec import ELEMENTS_MAX, decode
from kraft.wire.declaration import Buffer, Message
from kraft.wire.errors import ProtocolError, TooManyElements
from kraft.wire.frame import SIZE_BYTES, RequestHeader, decode_request_header, encode_response, frame_response
from kraft.wire.schema.api_versions import ApiVersionsResponse

ELEMENT_BYTES: Final = 1_024
"""Upper bound of the memory that one element of a request takes, decoded and carried out."""

LONG_FRAME_BYTES: Final = 64 * 1024
"""Size from which a request that is no Produce is decoded, carried out and encoded in turns of their own. It may have
thousands of elements, each of which takes microseconds in each of these.
"""

DECODED_ON_LOOP_MAX: Final = 2_000
"""Elements of a request that is decoded where it arrives. One with more is copied, and decoded in a thread."""

_PRODUCE_KEY: Final = int(ApiKey.PRODUCE)


class FetchQuota(NamedTuple):
    """The quota of a client that fetches."""

    bytes_max: int | None
    """The most that one response should have; None: any number."""

    wait_ms: int
    """The client is over its quota: it gets no records, and has to wait. 0 if it is not."""

    def at_most(self, bytes_max: int) -> int:
        """Return how much of records a response has that may have `bytes_max`."""
        return bytes_max if self.bytes_max is None else min(bytes_max, self.bytes_max)


class ConnectionContext(RequestContext, frozen=True, kw_only=True):
    """A request's context, with what this listener knows about its connection."""

    frame_bytes: int = 0
    """Size of the frame that the request came in."""

    unread: UnreadResponses | None = None
    """Shared by all clients: limits the bytes of records in a response. None: no limit but the client's."""

    waiting: WaitingClient | None = None
    """Counts the waiting appends of this connection. None: they are not counted."""

    repeated: RepeatedRefusals | None = None
    """Counts refused requests that this connection repeats. None: they are not counted."""

    introduced: IntroducedClient | None = None
    """Keeps what the client of this connection calls itself. None: nobody asks."""

    fetch_quota: FetchQuota | None = None
    """None: there is none."""

    kept: KeptFrame | None = None
    """The copy that the request's records are in; None if these belong to the receive buffer. Only with Produce."""


class EncodedMessage(Struct, frozen=True):
    """An encoded message without its header, in the requested version."""

    kind: type[Message]
    body: Buffer
    rest: tuple[Buffer, ...] = ()
    """Further buffers, of a message with records."""


Response = Message | EncodedMessage | None
"""None: no response is sent."""

Api = Callable[[Any, ConnectionContext], Awaitable[Response] | Response]
"""Answers the message of its key. Bytes of records are valid until the call returns, not while its result is awaited.
Raises CloseConnection."""


class RequestMeter(Protocol):
    """Measures the requests of one connection, whose client may have quotas."""

    is_muted: bool
    """The client has used more than its quotas: no more is read for a while."""

    @property
    def muted_ms(self) -> int:
        """For how long from now on."""

    @property
    def has_quotas(self) -> bool:
        """False if nothing needs to be measured, because no client has a quota."""

    @property
    def measures_time(self) -> bool:
        """Whether any client has a quota of processor time."""

    def begin(
        self, api: Api, request: Any, call: ConnectionContext, header: RequestHeader, began_ns: int
    ) -> Awaitable[ResponseBytes] | ResponseBytes:
        """Call the API and encode its response.

        `began_ns`: when the request was begun, by the thread's time; 0 if time is not measured.
        """

    def when_over(self, go_on: Callback) -> None:
        """Set `go_on`, which is called when the connection may be read again."""

    def close(self) -> None:
        """Call nothing any more."""


class NodeConnections(Protocol):
    """Admits nodes of this cluster on connections of the listener."""

    def admit(self, version: int, frame: memoryview, peer: str, certificate: bytes | None = None) -> TakeOver:
        """Return what serves the connection. `certificate`: what this node showed the other, with TLS.

        Raises Unintroduced, and ValueError for bytes that introduce nobody.
        """


class KafkaRequests:
    """Decodes each request of a connection, calls its API and encodes the response."""

    def __init__(
        self,
        apis: Mapping[ApiKey, Api],
        peer: str,
        unread: UnreadResponses | None = None,
        elements_max: int = ELEMENTS_MAX,
        nodes: NodeConnections | None = None,
        listener: str = "",
        principal: Principal = ANONYMOUS,
        certificate: bytes | None = None,
        meter: RequestMeter | None = None,
        largest: Budget | None = None,
    ) -> None:
        """`nodes` admits other nodes of the cluster, whose connections are then not Kafka's. None: it admits none.

        `listener` is the name of the listener, `certificate` what this node showed the client, with TLS. `meter` None:
        clients have no quotas. `largest` limits the copies of Produce requests; None: one for this connection.
        """
        self._apis = apis
        self._peer = peer
        self._unread = unread
        self._elements_max = elements_max
        self._decoded_on_loop_max = min(elements_max, DECODED_ON_LOOP_MAX)
        self._kept: KeptFrame | None = None
        self._nodes = nodes
        self._listener = listener
        self._certificate = certificate
        self.principal = principal
        """Who sends the requests."""
        self._meter = meter
        self._largest = largest or Budget(0, BeyondBudget.ALONE)
        self._waiting = WaitingClient()
        self._repeated = RepeatedRefusals()
        self._introduced = IntroducedClient()

    @property
    def is_trusted(self) -> bool:
        return True

    def client(self) -> ClientWords:
        said = self._introduced
        return ClientWords(
            principal=self.principal,
            client_id=said.client_id,
            software_name=said.software_name,
            software_version=said.software_version,
        )

    def objection(self) -> str | None:
        return None

    @property
    def is_muted(self) -> bool:
        return self._meter is not None and self._meter.is_muted

    @property
    def muted_ms(self) -> int:
        return 0 if self._meter is None else self._meter.muted_ms

    def when_ready(self, go_on: Callback) -> None:
        self._waiting.go_on = go_on
        if self._meter is not None:
            self._meter.when_over(go_on)

    def close(self) -> None:
        self._waiting.go_on = _nothing
        self._introduced.gone()
        if self._kept is None:
            self._largest.release(self)
        if self._meter is not None:
            self._meter.close()

    def is_pipelined(self, frame: memoryview) -> bool:
        return frame[1] == _PRODUCE_KEY and not frame[0] and not self._waiting.has_to_wait

    def begin(self, frame: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
        meter = self._meter if self._meter is not None and self._meter.has_quotas else None
        began_ns = thread_time_ns() if meter is not None and meter.measures_time else 0
        try:
            header, position = decode_request_header(frame)
            api = self._apis.get(header.api_key)  # type: ignore[call-overload]  # Any number may come; few are keys.
            if api is None and header.api_key == HELLO_KEY and self._nodes is not None:
                return _introduced(self._nodes, header, frame, self._peer, self._certificate)
            if api is None:
                raise CloseConnection(f"{api_name(header.api_key)} is not supported", refused_for=RefusedFor.VERSION)
            if not is_served(header.api_key, header.api_version):
                return self.refuse_version(header)
            kind = request_type(header.api_key)
            try:
                request = decode(kind, header.api_version, frame, position, self._decoded_on_loop_max)
            except TooManyElements:
                if self._decoded_on_loop_max < self._elements_max:
                    return self._begin_long(api, header, frame, position)
                raise
        except ProtocolError as error:
            raise CloseConnection(str(error)) from None
        call = self.context(header, len(frame))
        if meter is not None:
            return meter.begin(api, request, call, header, began_ns)
        return answer_unmeasured(api, request, call, header)

    def _begin_long(
        self, api: Api, header: RequestHeader, frame: memoryview, position: int
    ) -> Awaitable[ResponseBytes]:
        """Begin a request that is decoded in a thread. Raises HasToWait."""
        if header.api_key != _PRODUCE_KEY:
            return self._answer_when_decoded(api, header, bytes(frame), position, None)
        if not self._largest.claim(self, len(frame), self._may_go_on):
            raise HasToWait
        # The client's next request has to be handled after this one.
        self._waiting.began()
        self._kept = KeptFrame(bytes(frame), self._kept_no_more)
        # It is carried out, as any other Produce request that arrived, when its client disconnects meanwhile.
        return asyncio.shield(
            asyncio.ensure_future(self._answer_when_decoded(api, header, self._kept.data, position, self._kept))
        )

    async def _answer_when_decoded(
        self, api: Api, header: RequestHeader, data: bytes, position: int, kept: KeptFrame | None
    ) -> ResponseBytes:
        kind = request_type(header.api_key)
        try:
            try:
                request = await asyncio.to_thread(decode, kind, header.api_version, data, position, self._elements_max)
            except ProtocolError as error:
                raise CloseConnection(str(error)) from None
            call = self.context(header, len(data), kept)
            # The records may be appended long before the request is answered.
            del data
            meter = self._meter if self._meter is not None and self._meter.has_quotas else None
            if meter is None:
                answer = answer_unmeasured(api, request, call, header)
            else:
                answer = meter.begin(api, request, call, header, thread_time_ns() if meter.measures_time else 0)
            del request
            return await answer if isinstance(answer, Awaitable) else answer
        finally:
            if kept is not None:
                kept.release()

    def _may_go_on(self) -> None:
        self._waiting.go_on()

    def _kept_no_more(self) -> None:
        self._kept = None
        self._largest.release(self)
        self._waiting.ended()

    def context(self, header: RequestHeader, frame_bytes: int, kept: KeptFrame | None = None) -> ConnectionContext:
        """Return the context of a request."""
        client_id = header.client_id or ""
        self._introduced.client_id = client_id[:TEXT_CHARACTERS_MAX]
        return ConnectionContext(
            version=header.api_version,
            client_id=client_id,
            peer=self._peer,
            principal=self.principal,
            listener=self._listener,
            frame_bytes=frame_bytes,
            unread=self._unread,
            waiting=self._waiting,
            repeated=self._repeated,
            introduced=self._introduced,
            kept=kept,
        )

    def refuse_version(self, header: RequestHeader) -> ResponseBytes:
        """Answer ApiVersions, which lists the versions (KIP-511); close the connection on any other API."""
        if header.api_key != ApiKey.API_VERSIONS:
            reason = f"version {header.api_version} of {api_name(header.api_key)} is not supported"
            raise CloseConnection(reason, refused_for=RefusedFor.VERSION)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised(self._apis))
        return encode_response(response, 0, header.correlation_id)


def _introduced(
    nodes: NodeConnections, header: RequestHeader, frame: memoryview, peer: str, certificate: bytes | None
) -> ResponseBytes:
    """Raise TakenOver, or return the refusal of a node."""
    try:
        serve = nodes.admit(header.api_version, frame, peer, certificate)
    except Unintroduced as refused:
        reason = refusing(str(refused))
        return [len(reason).to_bytes(SIZE_BYTES, "big") + reason]
    except ValueError as error:
        raise CloseConnection(str(error)) from None
    raise TakenOver(serve)


async def _answered_in_turns(api: Api, request: Any, call: ConnectionContext, header: RequestHeader) -> ResponseBytes:
    return encode_any(await answered_in_turns(api, request, call), header)


async def answered_in_turns(api: Api, request: Any, call: ConnectionContext) -> Response:
    """Answer a long request: others have a turn before it is carried out, and before it is encoded."""
    await asyncio.sleep(0)
    response = api(request, call)
    if response is not None and not isinstance(response, (Message, EncodedMessage)):
        response = await response
    await asyncio.sleep(0)
    return response


def answer_unmeasured(
    api: Api, request: Any, call: ConnectionContext, header: RequestHeader
) -> Awaitable[ResponseBytes] | ResponseBytes:
    if is_long(call, header.api_key):
        return _answered_in_turns(api, request, call, header)
    response = api(request, call)
    if response is None or isinstance(response, (Message, EncodedMessage)):
        return encode_any(response, header)
    return _encoded_when_there(response, header)


async def _encoded_when_there(response: Awaitable[Response], header: RequestHeader) -> ResponseBytes:
    return encode_any(await response, header)


def is_long(call: ConnectionContext, api_key: int) -> bool:
    """Return whether the request is answered in turns."""
    return call.frame_bytes >= LONG_FRAME_BYTES and api_key != _PRODUCE_KEY


def encode_any(response: Response, header: RequestHeader) -> ResponseBytes:
    if response is None:
        return []
    if isinstance(response, EncodedMessage):
        return frame_response(response.kind, header.api_version, header.correlation_id, response.body, response.rest)
    return encode_response(response, header.api_version, header.correlation_id)


def _nothing() -> None:
    """Nobody is there whose requests could go on."""


def api_name(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API key {api_key}"
