"""One record, written by hand into a topic as the user who is logged in."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from msgspec import Struct

from kraft.client import ErrorCode, KraftError, RecordMetadata, Refusal
from kraft.console.asking import CLIENT_MS, Asked, Panel
from kraft.console.forms import Done, Form, WrongInput
from kraft.console.records.decoding.limits import CannotDecode, json_value
from kraft.console.rendering import segment
from kraft.model.printable import counted, printable

log = structlog.get_logger()

FORM_BYTES_MAX: Final = 1 << 20
"""As much as one record of a producer with Kafka's defaults may have."""

HEADERS_MAX: Final = 100
DELIVERY_MS: Final = 8_000
"""Longest wait for the brokers; a change is waited for a little longer."""

REQUEST_MS: Final = 3_000
CLOSE_MS: Final = 500

FORMATS: Final = ("text", "json", "hex", "base64")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_BLANKS: Final = re.compile(r"[\s:,]+|0[xX]")
_PARTITION_MAX: Final = 2**31 - 1


class Producing(Struct, frozen=True, kw_only=True):
    """What the form offers."""

    topic: str
    partitions: int
    internal: bool
    formats: tuple[str, ...] = FORMATS
    codecs: tuple[str, ...] = CODECS


class Produce(Struct, frozen=True, kw_only=True):
    name: str
    topic: Panel[Producing]
    once: str
    """Sent back with the record: a form that is sent twice stores one record."""

    partition: int | None
    """Where the record of before was stored, after which this page is shown; None: there was none."""

    offset: int | None

    @property
    def status(self) -> int:
        return self.topic.status


class Produced(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class NewRecord(Struct, frozen=True, kw_only=True):
    key: bytes | None
    value: bytes | None
    """None: a tombstone."""

    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    codec: str = "none"


async def produce(asked: Asked) -> Produce:
    name = asked.path["topic"]

    def found() -> Producing:
        (described,) = asked.admin.describe_topics([name], timeout_ms=CLIENT_MS)
        metadata = described.metadata
        return Producing(topic=described.topic, partitions=len(metadata.partitions), internal=metadata.is_internal)

    return Produce(
        name=name,
        topic=await asked.panel(found),
        once=secrets.token_urlsafe(16),
        partition=_stored(asked.query, "stored_partition"),
        offset=_stored(asked.query, "stored_offset"),
    )


def _stored(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


async def send(asked: Asked) -> Done:
    """Store the record of the form. Raises KraftError."""
    topic, record = asked.path["topic"], new_record(asked.form)
    asked.state.sent_forms.note(asked.form.text("once"))
    told = {
        "cluster": asked.cluster.name,
        "user": asked.user,
        "topic": topic,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        "headers": len(record.headers),
    }
    try:
        stored = await asked.change(lambda: _sent(asked, topic, record))
    except KraftError as error:
        log.warning("record not produced", **told, reason=printable(str(error)))
        raise
    log.info("record produced", **told, partition=stored.partition, offset=stored.offset)
    where = f"/clusters/{asked.cluster.name}/topics/{segment(topic)}/produce"
    return Done(
        where=f"{where}?stored_partition={stored.partition}&stored_offset={stored.offset}",
        said=f"The record is stored in {topic}, partition {stored.partition}, at offset {stored.offset}.",
        value=Produced(topic=topic, partition=stored.partition, offset=stored.offset, timestamp_ms=stored.timestamp_ms),
    )


def _sent(asked: Asked, topic: str, record: NewRecord) -> RecordMetadata:
    """Send it by an idempotent producer: retries store it once."""
    producer = asked.client.producer(
        compression_type=record.codec,
        linger_ms=0,
        request_timeout_ms=REQUEST_MS,
        delivery_timeout_ms=DELIVERY_MS,
        max_block_ms=DELIVERY_MS,
    )
    try:
        future = producer.send(topic, record.value, key=record.key, headers=record.headers, partition=record.partition)
        return future.result(DELIVERY_MS / 1_000 + 1)
    except Refusal as refusal:
        if refusal.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        # Brokers let an idempotent producer begin if its user may write to any topic: this one may not to any.
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Write on topic {topic} is needed") from None
    finally:
        producer.close(timeout_ms=CLOSE_MS)


# --- the form ------------------------------------------------------------------------------------------------------


def new_record(form: Form) -> NewRecord:
    """Return the record that somebody typed. Raises WrongInput."""
    key = _bytes_of(form, "key") if form.raw("key") else None
    is_tombstone = form.flag("tombstone")
    if is_tombstone and form.raw("value"):
        raise WrongInput("a tombstone has no value: remove the value, or do not choose a tombstone")
    if is_tombstone and key is None:
        raise WrongInput("a tombstone needs a key: it deletes the records of this key from a compacted topic")
    codec = form.text("compression", "none")
    if codec not in CODECS:
        raise WrongInput(f"compression={codec[:40]!r} is not one of {', '.join(CODECS)}")
    partition = form.number("partition", 0, _PARTITION_MAX) if form.text("partition") else None
    return NewRecord(
        key=key,
        value=None if is_tombstone else _bytes_of(form, "value"),
        headers=headers_of(form.all("headers")),
        partition=partition,
        codec=codec,
    )


def headers_of(texts: tuple[str, ...]) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers, one a line as `name: value`; a name without a colon has no value. Raises WrongInput."""
    found: list[tuple[str, bytes | None]] = []
    for line in (each for text in texts for each in text.split("\n") if each.strip()):
        name, colon, value = line.partition(":")
        if not name.strip():
            raise WrongInput(f"the header {line[:40]!r} has no name: write it as name: value")
        found.append((name.strip(), value.strip().encode() if colon else None))
    if len(found) > HEADERS_MAX:
        raise WrongInput(f"there are {counted(len(found), 'header')}: {HEADERS_MAX} are the most that this form takes")
    return tuple(found)


def _bytes_of(form: Form, name: str) -> bytes:
    given, chosen = form.raw(name), form.text(f"{name}_format", "text") or "text"
    if chosen not in _READS:
        raise WrongInput(f"{name}_format={chosen[:40]!r} is not one of {', '.join(FORMATS)}")
    try:
        return _READS[chosen](given)
    except WrongInput as error:
        raise WrongInput(f"the {name} {error}") from None


def _json(text: str) -> bytes:
    try:
        json_value(text)
    except CannotDecode as error:
        raise WrongInput(f"is not JSON: {error}; mend it, or send it as text") from None
    return text.encode()


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(_BLANKS.sub("", text))
    except ValueError:
        raise WrongInput("is not hexadecimal: write two digits for each byte, such as 00 ff") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise WrongInput("is not base64: remove what is not part of it, and end it with =") from None


_READS: Final[Mapping[str, Callable[[str], bytes]]] = {
    "text": str.encode,
    "json": _json,
    "hex": _hex,
    "base64": _base64,
}
