"""What strangers begin with: handshakes of TLS, and logins by SASL, whole and with parts missing."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import cache
from typing import Final

from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ScramMechanism
from kraft.sasl.scram_client import ScramClient
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest
from kraft.wire.schema.produce import ProduceRequest
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest
from tests.support.tls_wire import client_context

BEFORE: Final = 0
IN_HANDSHAKE: Final = 1
"""Behind a ClientHello that is in order."""
AFTER: Final = 2

_TOKEN: Final = b"n,,\x01auth=Bearer abc.def-_\x01\x01"


def tls_conversations() -> tuple[bytes, ...]:
    """Return bytes of TLS, behind one that says where they arrive, and one with how many of them at a time."""
    hello = _first_flight()
    finished = b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x35" + bytes(53)
    alert = b"\x15\x03\x03\x00\x02\x02\x28"
    return (
        bytes((BEFORE, 0)) + hello,
        bytes((BEFORE, 7)) + hello,
        bytes((BEFORE, 0)) + b"\x16\x03\x01\x00\x04\x01\x00\xff\xff" + b"\x16\x03\x01\x00\x01\x00" * 80,
        bytes((BEFORE, 0)) + b"\x80\x2e\x01\x03\x01" + bytes(46),
        bytes((IN_HANDSHAKE, 0)) + finished,
        bytes((IN_HANDSHAKE, 0)) + alert,
        bytes((IN_HANDSHAKE, 0)) + hello,
        bytes((AFTER, 0)) + b"\x17\x03\x03\x00\x20" + bytes(32),
        bytes((AFTER, 3)) + b"\x17\x03\x03\x40\x00" + bytes(300),
        bytes((AFTER, 0)) + hello,
        bytes((AFTER, 0)) + alert,
    )


def _first_flight() -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


# --- SASL --------------------------------------------------------------------------------------------------------


@cache
def logins() -> tuple[bytes, ...]:
    """Return a conversation for each mechanism and kind of handshake, up to its last message."""
    scram = ScramClient(ScramMechanism.SHA_256, "alice", "guessed", "nonce")
    server_first = b"r=nonceAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,s=c2FsdCBvZiB0aGUgdGVzdHM=,i=4096"
    messages = {
        "PLAIN": [plain_message("alice", "guessed")],
        "SCRAM-SHA-256": [scram.first(), scram.final(server_first)],
        "OAUTHBEARER": [_TOKEN, b"\x01"],
    }
    found = []
    for mechanism, said in messages.items():
        for version in (0, 1):
            begins = [_request(ApiVersionsRequest(), 3), _request(SaslHandshakeRequest(mechanism=mechanism), version)]
            steps = [
                _sized(each) if version == 0 else _request(SaslAuthenticateRequest(auth_bytes=each), 2) for each in said
            ]
            found.append(b"".join([*begins, *steps]))
            found.append(b"".join([begins[1], steps[0], begins[1], _request(_PRODUCE, 9)]))
    return tuple(found)


_PRODUCE: Final = ProduceRequest(acks=1, timeout_ms=0, topic_data=())


def _request(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request, version, 7, "client"))


def _sized(token: bytes) -> bytes:
    return len(token).to_bytes(SIZE_BYTES, "big") + token
