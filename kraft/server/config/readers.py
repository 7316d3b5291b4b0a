"""Readers: from the text of one setting to its value.

A reader raises ValueError for text that it does not accept; the message says what it accepts.
"""

from __future__ import annotations

import re
from pathlib import Path

from kraft.model.config_keys import Reader, items_of, one_of, reads, whole_number
from kraft.model.configs import ConfigType
from kraft.model.ids import BrokerId, uuid_from_text, uuid_to_text
from kraft.server.config.values import (
    METRICS,
    UNLIMITED_BYTES_PER_SECOND,
    Durability,
    Listener,
    Role,
    Voter,
)

MIB = 1024 * 1024

_ADDRESS = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):(?P<port>[0-9]+)"
_METRICS_ADDRESS = re.compile(_ADDRESS)
_LISTENER = re.compile(rf"(?P<name>[A-Za-z0-9_]+)://{_ADDRESS}")
_VOTER = re.compile(rf"(?P<node_id>[0-9]+)@{_ADDRESS}")


@reads(ConfigType.DOUBLE)
def bytes_per_second(text: str) -> int:
    """Read a rate. Kafka's type is a floating-point number, and its default the largest one."""
    if not re.fullmatch(r"[0-9]{1,19}(\.[0-9]{1,19})?([eE]\+?[0-9]{1,3})?", text) or float(text) < 1:
        raise ValueError("expected a number of bytes, at least 1")
    return int(min(float(text), UNLIMITED_BYTES_PER_SECOND))


@reads(ConfigType.STRING)
def durability(text: str) -> Durability:
    return Durability(one_of(*Durability)(text))


@reads(ConfigType.INT)
def node_id(text: str) -> BrokerId:
    if text == "-1":
        raise ValueError("ids are not assigned automatically: expected a whole number from 0 that no other node has")
    return BrokerId(whole_number(0)(text))


@reads(ConfigType.STRING)
def cluster_id(text: str) -> str:
    try:
        canonical = uuid_to_text(uuid_from_text(text))
    except ValueError:
        canonical = ""
    if canonical != text:
        raise ValueError("expected an id of 22 base64 characters, as 'kraft storage random-uuid' prints")
    return text


@reads(ConfigType.LIST)
def roles(text: str) -> frozenset[Role]:
    names = items_of(text)
    if not names or any(name not in list(Role) for name in names):
        raise ValueError("expected broker, controller, or broker,controller")
    return frozenset(Role(name) for name in names)


@reads(ConfigType.STRING)
def directory(text: str) -> Path:
    """Return an absolute path; a relative one starts at the working directory of the process, as in Kafka."""
    if not text or "\0" in text or "," in text:
        raise ValueError("expected the path of one directory")
    return Path(text).absolute()


@reads(ConfigType.STRING)
def file(text: str) -> Path:
    """Return an absolute path, as for a directory."""
    if not text or "\0" in text:
        raise ValueError("expected the path of one file")
    return Path(text).absolute()


@reads(ConfigType.LIST)
def directories(text: str) -> tuple[Path, ...]:
    """Return one or more directories, which are separated by commas."""
    if not all(part.strip() for part in text.split(",")):
        raise ValueError("expected the paths of one or more directories, separated by commas")
    return tuple(directory(part.strip()) for part in text.split(","))


@reads(ConfigType.STRING)
def plain_text(text: str) -> str:
    return text


def only_value(expected: str, reason: str) -> Reader[str]:
    """Return a reader for a key of Kafka's that has a single accepted value."""

    @reads(ConfigType.STRING)
    def read(text: str) -> str:
        if text != expected:
            raise ValueError(f"expected {expected}: {reason}")
        return text

    return read


@reads(ConfigType.LIST)
def listeners(text: str) -> tuple[Listener, ...]:
    found = tuple(_listener(item) for item in items_of(text))
    names = [listener.name for listener in found]
    if not found:
        raise ValueError("expected listeners as NAME://host:port, separated by commas")
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{repeated} is named twice: name each listener once")
    return found


@reads(ConfigType.STRING)
def metrics_address(text: str) -> Listener:
    matched = _METRICS_ADDRESS.fullmatch(text)
    if matched is None:
        raise ValueError("expected host:port, such as localhost:9404")
    return Listener(METRICS, _host(matched["host"]), _port(matched["port"]))


@reads(ConfigType.LIST)
def voters(text: str) -> tuple[Voter, ...]:
    found = tuple(_voter(item) for item in items_of(text))
    if not found:
        raise ValueError("expected the controllers as id@host:port, separated by commas")
    for what, values in (
        ("id", [str(voter.node_id) for voter in found]),
        ("address", [voter.address for voter in found]),
    ):
        if repeated := next((value for value in values if values.count(value) > 1), None):
            raise ValueError(f"{what} {repeated} is named twice: name each controller once")
    return found


def _listener(text: str) -> Listener:
    matched = _LISTENER.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is not a listener: expected NAME://host:port")
    return Listener(matched["name"].upper(), _host(matched["host"]), _port(matched["port"]))


def _voter(text: str) -> Voter:
    matched = _VOTER.fullmatch(text)
    if matched is None or not matched["host"]:
        raise ValueError(f"{text!r} is not a controller: expected id@host:port")
    return Voter(node_id(matched["node_id"]), _host(matched["host"]), _port(matched["port"]))


def _host(text: str) -> str:
    return text.strip("[]")


def _port(text: str) -> int:
    try:
        return whole_number(1, 65535)(text)
    except ValueError:
        raise ValueError(f"{text} is not a port: expected 1 to 65535") from None
