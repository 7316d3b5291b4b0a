"""The kinds of addresses that the console answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from kraft.console.asking import Asked
from kraft.console.forms import Done
from kraft.console.protection import FORM_BYTES_MAX
from kraft.console.streams import Event


class Access(StrEnum):
    ANYBODY = "anybody"
    USER = "user"
    """Who has logged in to the cluster of the address, or anybody where it is open."""

    SESSION = "session"
    """Who has logged in somewhere."""


class Page(Struct, frozen=True, kw_only=True):
    """A page of a cluster: also as JSON, below /api."""

    path: str
    template: str
    load: Callable[[Asked], Awaitable[Any]]
    """Its annotation has the Struct that it returns, from which the API is described."""

    asks: str
    """What the brokers ask for: an operation on a resource."""

    takes: tuple[str, ...] = ()
    """Names of what its query may have; kraft/console/parameters.py says what they mean."""


class Change(Struct, frozen=True, kw_only=True):
    """A form that is sent to a cluster, and below /api an object of JSON. The page at the same path shows the form."""

    path: str
    perform: Callable[[Asked], Awaitable[Done]]
    """Raises KraftError."""

    asks: str
    takes: tuple[str, ...] = ()
    """Names of its fields."""

    form_bytes_max: int = FORM_BYTES_MAX


class Stream(Struct, frozen=True, kw_only=True):
    """Server-sent events of a cluster."""

    path: str
    events: Callable[[Asked], AsyncGenerator[Event, None]]
    asks: str
    takes: tuple[str, ...] = ()


class Action(Struct, frozen=True, kw_only=True):
    """An address that is no page of a cluster."""

    name: str
    path: str
    method: str
    access: Access
    changes: bool = False
