"""Checks of arguments: a value of a wrong type is named where it is given, not where it would be used."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kraft.log.format.record_codec import Header
from kraft.metadata.topic_names import TOPIC_NAME_LENGTH_MAX, check_topic_name
from kraft.model.ids import TopicPartition

Value = TypeVar("Value")

_INT64_MAX: Final = (1 << 63) - 1


def checked_topic(topic: object) -> str:
    """Return the name of a topic. Raises TypeError unless it is text, and INVALID_TOPIC_EXCEPTION if it is too long.

    Brokers check the rest of the name, but Kafka's protocol has no room for any length.
    """
    if not isinstance(topic, str):
        raise TypeError(f"the name of a topic must be text, not {type(topic).__name__}")
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        check_topic_name(topic)
    return topic


def checked_number(name: str, number: int) -> int:
    """Return the number as an int. Raises TypeError for text and for a float."""
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {type(number).__name__}") from None


def checked_bytes(name: str, content: object) -> bytes | None:
    """Return the content as bytes. Raises TypeError for text, which is never encoded implicitly."""
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    hint = "; encode it first, as with .encode()" if isinstance(content, str) else ""
    raise TypeError(f"a record's {name} must be bytes or None, not {type(content).__name__}{hint}")


def checked_timestamp(timestamp_ms: int) -> int:
    """Return the timestamp. Raises TypeError for a float, and ValueError if it is negative or exceeds 64 bits."""
    number = checked_number("timestamp_ms, the milliseconds since 1970,", timestamp_ms)
    if not 0 <= number <= _INT64_MAX:
        raise ValueError(f"a timestamp of {number} ms since 1970 is not between 0 and 2^63-1")
    return number


def checked_headers(headers: object) -> tuple[Header, ...]:
    """Return the headers as a tuple. Raises TypeError or UnicodeEncodeError."""
    if headers == ():
        return ()
    if not isinstance(headers, Iterable) or isinstance(headers, (str, bytes, dict)):
        hint = "; give list(headers.items())" if isinstance(headers, dict) else ""
        raise TypeError(f"headers must be a list of (name, bytes) pairs, not {type(headers).__name__}{hint}")
    return tuple(map(_checked_header, headers))


def _checked_header(header: object) -> Header:
    if not isinstance(header, (tuple, list)) or len(header) != 2:
        raise TypeError(f"a header must be a pair of name and bytes, not {header!r}")
    name, content = header
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be text, not {type(name).__name__}")
    name.encode()
    return name, checked_bytes("header", content)


def checked_partition(partition: object) -> TopicPartition:
    """Return the partition. Raises TypeError unless it is a TopicPartition of a text and a number."""
    if not isinstance(partition, TopicPartition):
        raise TypeError(f"{partition!r} is not a TopicPartition, such as TopicPartition('orders', 0)")
    checked_topic(partition.topic)
    checked_number("the partition of a TopicPartition", partition.partition)
    return partition


def checked_partitions(partitions: object) -> list[TopicPartition]:
    """Return the partitions. Raises TypeError."""
    if isinstance(partitions, (str, bytes, TopicPartition)) or not isinstance(partitions, Iterable):
        raise TypeError(f"expected a list of TopicPartition, not {partitions!r}")
    return [checked_partition(each) for each in partitions]


def checked_mapping(given: Mapping[TopicPartition, Value], what: str) -> Mapping[TopicPartition, Value]:
    """Return the mapping. Raises TypeError for a list and the like; `what` names its values."""
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a dict of TopicPartition and {what}, not {type(given).__name__}")
    return given


def checked_topics(names: object) -> list[str]:
    """Return the names of topics. Raises TypeError as `checked_names`, and as `checked_topic`."""
    return [checked_topic(each) for each in checked_names(names)]


def checked_names(names: object) -> list[str]:
    """Return the names. Raises TypeError for one text, whose letters would be taken for names."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"expected a list of names, not {names!r}")
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not a name: expected text")
    return listed
