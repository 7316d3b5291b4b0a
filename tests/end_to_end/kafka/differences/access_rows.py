"""A request of the matrix of access, and what is kept of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from msgspec import Struct

from kraft.wire.declaration import Message


class Row(Struct, frozen=True):
    label: str
    request: Message
    version: int
    keep: Callable[[Any], Any] = lambda answer: answer
    """Leaves out of an answer what differs from one success to the next."""

    only_refused: bool = False
    """Whether only clients may send it that must be refused: it would change what others are answered."""

    one_by_one: bool = False
    """Whether clients must not send it at the same time: one could be told to wait for another."""


class Ids(Struct, frozen=True):
    """Of topics."""

    topic: UUID
    other: UUID
    unknown: UUID = UUID(int=77)


def plain(answer: Any) -> Any:
    """Return an answer without its texts, and with lists in an order of their own: Kafka's come from hash tables.

    Other scenarios compare where there is a text.
    """
    if isinstance(answer, dict):
        return {key: plain(value) for key, value in answer.items() if key != "error_message"}
    if isinstance(answer, list):
        return sorted(map(plain, answer), key=json.dumps)
    return answer


def leaving_out(*fields: str) -> Callable[[Any], Any]:
    """Return what leaves fields out, at any depth."""

    def keep(answer: Any) -> Any:
        if isinstance(answer, dict):
            return {key: keep(value) for key, value in answer.items() if key not in fields}
        return [keep(each) for each in answer] if isinstance(answer, list) else answer

    return keep


def counting(*fields: str) -> Callable[[Any], Any]:
    """Return what has in place of lists how many elements they have, at any depth."""

    def keep(answer: Any) -> Any:
        if isinstance(answer, dict):
            return {key: len(value) if key in fields and value else keep(value) for key, value in answer.items()}
        return [keep(each) for each in answer] if isinstance(answer, list) else answer

    return keep


def naming(listed: str, name: str) -> Callable[[Any], Any]:
    """Return what keeps the names in a list, and the error code."""

    def keep(answer: Any) -> Any:
        return {"error_code": answer.get("error_code", 0), listed: [each[name] for each in answer[listed]]}

    return keep
