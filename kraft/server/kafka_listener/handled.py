"""An API whose handler takes and gives Kafka's messages: what is left is its refusals and its older versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Set
from typing import Any, NamedTuple, TypeVar

from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from kraft.model.request_context import RequestContext
from kraft.rpc.value_elements import count_value_elements
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.encoded_responses import (
    ELEMENTS_ON_LOOP_MAX,
    EncodedResponses,
    encoded,
    encoded_in_thread,
)
from kraft.server.kafka_listener.repeated_refusals import REPEATED_MIN, RepeatedRefusals
from kraft.server.kafka_listener.requests import LONG_FRAME_BYTES, ConnectionContext, EncodedMessage, Response
from kraft.server.loop.periods import loop_time_s
from kraft.wire.api_keys import ApiKey, response_type
from kraft.wire.declaration import ZERO_UUID, ArrayOf, Field, Fixed, Identifier, Message, Sized
from kraft.wire.versions import NO_VERSION

Request = TypeVar("Request")
Answer = TypeVar("Answer")

Refused = Callable[[Request, Refusal], Answer]
"""Returns the response to a refused request."""

FromVersion = Callable[[Request, int], Request]
"""Returns the request that one of an older version means."""

ToVersion = Callable[[Request, Answer, int], Answer]
"""Returns what a client of an older version expects."""

Misdirected = Callable[[Answer], Set[TopicPartition]]
"""Returns the partitions of a response that other brokers lead."""


class Reuse(NamedTuple):
    """Responses that are sent again, and the function that says to which requests; None is for this one only."""

    responses: EncodedResponses
    of: Callable[[Any], Hashable | None]
    differs_by_client: bool = False
    """Whether a response shows what its client may see."""


class HandledApi:
    def __init__(
        self,
        key: ApiKey,
        handle: Callable[..., Awaitable[Any]],
        *,
        refused: Refused[Any, Any] | None = None,
        from_version: FromVersion[Any] | None = None,
        to_version: ToVersion[Any, Any] | None = None,
        takes_context: bool = False,
        misdirected: Misdirected[Any] | None = None,
        reuse: Reuse | None = None,
    ) -> None:
        """The functions are those of the API's row in the table."""
        self._key = key
        self._handle = handle
        self._refused = refused
        self._from_version = from_version
        self._to_version = to_version
        self._takes_context = takes_context
        self._misdirected = misdirected
        self._reuse = reuse

    async def __call__(self, asked: Message, call: ConnectionContext) -> Response:
        request = asked
        if self._from_version is not None:
            request = await _converted(call, self._from_version, asked, call.version)
        if self._reuse is not None and (reused_for := self._reuse.of(request)) is not None:
            client = (call.principal, call.host) if self._reuse.differs_by_client else None
            key = call.version, reused_for, client
            return await self._reuse.responses.get(key, lambda: self._encoded(request, call))
        response = await self._response(request, call)
        if self._misdirected is not None and call.repeated is not None:
            _check_repeated(request, self._misdirected(response), call.repeated)
        if count_value_elements(response, ELEMENTS_ON_LOOP_MAX) > ELEMENTS_ON_LOOP_MAX:
            return await encoded_in_thread(response, call.version)
        return response

    async def _encoded(self, request: Message, call: RequestContext) -> EncodedMessage:
        response = await self._response(request, call)
        return await encoded(response, call.version, count_value_elements(response, ELEMENTS_ON_LOOP_MAX))

    async def _response(self, request: Message, call: RequestContext) -> Message:
        version = call.version
        try:
            response: Message = await (self._handle(request, call) if self._takes_context else self._handle(request))
        except Refusal as refusal:
            if self._refused is None:
                return refused_as_a_whole(response_type(self._key), refusal)
            response = await _converted(call, self._refused, request, refusal)
        return (
            response
            if self._to_version is None
            else await _converted(call, self._to_version, request, response, version)
        )


async def _converted(call: RequestContext, convert: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return what a message is in another version; in a thread if it may be long: each element takes a microsecond."""
    if isinstance(call, ConnectionContext) and call.frame_bytes >= LONG_FRAME_BYTES:
        return await asyncio.to_thread(convert, *arguments)
    return convert(*arguments)


def _check_repeated(request: Message, elsewhere: Set[TopicPartition], repeated: RepeatedRefusals) -> None:
    """Raise CloseConnection if the client only repeats a request for partitions that other brokers lead."""
    if not elsewhere:
        repeated.answered()
    elif repeated.are_endless(elsewhere, round(loop_time_s() * 1_000)):
        raise CloseConnection(
            f"{type(request).__name__.removesuffix('Request')} was repeated {REPEATED_MIN} times for partitions that "
            f"other brokers lead, {min(elsewhere)} the first: the client does not refresh its metadata, and does when "
            "its connection closes"
        )


def refused_as_a_whole(kind: type[Message], refusal: Refusal) -> Message:
    """Return a response that says why, and is otherwise null or empty."""
    says = {"error_code": refusal.error_code, "error_message": refusal.message}
    assert any(field.name == "error_code" for field in kind.fields), f"{kind.__name__} has no place for an error"
    return kind(**{field.name: says.get(field.name, _nothing(field)) for field in kind.fields})


def _nothing(field: Field) -> Any:
    if not field.is_required:
        return field.default
    if field.nullable != NO_VERSION:
        return None
    match field.form:
        case ArrayOf():
            return ()
        case Identifier():
            return ZERO_UUID
        case Fixed():
            return 0
        case Sized.BYTES:
            return b""
        case _:
            raise AssertionError(f"{field.name} has to be given")
