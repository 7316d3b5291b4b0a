"""Long messages: decoded, converted and encoded in a thread.

Each element of a message takes microseconds in each of these, and each MiB of it some milliseconds.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple, TypeVar

from kraft.rpc.call import MessageCodec
from kraft.rpc.mapping import Mapping, Parse, Serialize
from kraft.rpc.message_elements import count_elements
from kraft.rpc.pb import admin_pb2, broker_pb2, groups_pb2, transactions_pb2
from kraft.rpc.value_elements import count_value_elements

Value = TypeVar("Value")

ELEMENTS_MAX: Final = 1 << 16
"""Limit on the elements of all lists in one request of a client, each of which takes up to a KiB of memory while it is
carried out. It is above the partitions of a large topic.
"""

ADMIN_ITEMS_MAX: Final = 1 << 14
"""Limit on the topics, partitions or resources that a call of the Admin service names, without what is inside of them.
A controller decides on all of them in one piece. Kafka's listener takes no more.
"""

ELEMENTS_ON_LOOP_MAX: Final = 1_000
"""A message with more elements is long."""

BYTES_ON_LOOP_MAX: Final = 4 * 1024 * 1024
"""A message of more bytes is long. Larger than what a producer sends at once."""

_FILES_OF_CLIENTS: Final = frozenset(
    each.DESCRIPTOR.name for each in (admin_pb2, broker_pb2, groups_pb2, transactions_pb2)
)


class LongMessage(NamedTuple):
    """A message that is not decoded yet."""

    data: bytes


def receiving(codec: MessageCodec[Any]) -> Parse:
    """Return what decodes a message as it arrives, unless it is long. Raises DecodeError."""
    if not isinstance(codec, Mapping):
        return codec.parse
    parse, descriptor = codec.parse, codec.message_type.DESCRIPTOR

    def receive(data: bytes) -> Any:
        # Most messages have too few bytes for so many elements.
        if len(data) <= ELEMENTS_ON_LOOP_MAX:
            return parse(data)
        if len(data) > BYTES_ON_LOOP_MAX:
            return LongMessage(data)
        is_long = count_elements(data, descriptor, ELEMENTS_ON_LOOP_MAX) > ELEMENTS_ON_LOOP_MAX
        return LongMessage(data) if is_long else parse(data)

    return receive


async def value_of(codec: MessageCodec[Value], received: Any) -> Value:
    """Return the value of a message that `receiving` returned.

    Raises DecodeError, and ValueError for invalid fields and for too many elements of a client's.
    """
    if isinstance(received, LongMessage):
        assert isinstance(codec, Mapping), "others are never long"
        return await asyncio.to_thread(_decoded, codec, received.data)
    return codec.to_value(received)


def _decoded(codec: Mapping[Value, Any], data: bytes) -> Value:
    descriptor = codec.message_type.DESCRIPTOR
    # Before anything is decoded: that is one call, which holds the interpreter, also for millions of elements.
    if descriptor.file.name in _FILES_OF_CLIENTS and count_elements(data, descriptor, ELEMENTS_MAX) > ELEMENTS_MAX:
        raise ValueError(f"its lists have more than {ELEMENTS_MAX} elements together: send several requests")
    message = codec.parse(data)
    if descriptor.file.name == admin_pb2.DESCRIPTOR.name:
        items = sum(len(getattr(message, each.name)) for each in descriptor.fields if each.is_repeated)
        if items > ADMIN_ITEMS_MAX:
            raise ValueError(f"it names {items} things, more than {ADMIN_ITEMS_MAX}: send several requests")
    return codec.to_value(message)


async def to_message(codec: MessageCodec[Value], value: Value, received: Any = None) -> Any:
    """Return the message of a response, or the bytes of a long one.

    `received` is the message of the request: after a long one, the response is taken for long, too.
    """
    if isinstance(codec, Mapping) and (
        isinstance(received, LongMessage) or count_value_elements(value, ELEMENTS_ON_LOOP_MAX) > ELEMENTS_ON_LOOP_MAX
    ):
        return await asyncio.to_thread(lambda: codec.serialize(codec.to_message(value)))
    return codec.to_message(value)


def sending(codec: MessageCodec[Any]) -> Serialize:
    """Return what encodes a message, or passes one that is encoded already."""
    serialize = codec.serialize
    return lambda message: message if isinstance(message, bytes) else serialize(message)
