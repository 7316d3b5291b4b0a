"""A broker as a scenario meets it: raw requests over a socket, the decoded answers kept under labels.

Nothing here is a client: no retries, no metadata kept, and only what the scenario says is sent.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ScramMechanism
from kraft.sasl.scram_client import ScramClient
from kraft.wire.api_keys import response_type
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_response, encode_request
from kraft.wire.schema.create_topics import (
    CreateTopicsRequest,
)
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest
from tests.end_to_end.kafka.differences.plain import Plain
from tests.support.new_topic import new_topic

DEADLINE_S: Final = 30.0
TIMEOUT_MS: Final = 5_000
"""That requests give a broker."""

_ANSWER_DEADLINE_S: Final = 8.0
_HEAD_BYTES: Final = 6
"""Correlation id and error code."""

_CLIENT_ID: Final = "differences"

ROOT: Final = "root"
"""The user that brokers know before any request: it logs in with PLAIN, as Kafka has no other way."""

PASSWORD: Final = "secret"
"""Every user's."""


class Closed(Exception):
    """The broker ended the connection instead of answering."""


class Peer:
    """One scenario's view of one broker."""

    def __init__(self, address: str, plain: Plain, answers: dict[str, Any], user: str | None = None) -> None:
        """`plain` and `answers` are the scenario's, whichever of several brokers is asked. A user logs in first."""
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._line: socket.socket | None = None
        self._others: list[Peer] = []
        self._correlation_id = 0
        self._begun: tuple[type[Message], int] = (Message, 0)
        self._plain = plain
        self.answers = answers
        self._user = user

    # --- what is compared ----------------------------------------------------------------------------------------

    def ask(self, label: str, request: Message, version: int, keep: Callable[[Any], Any] = lambda reply: reply) -> Any:
        """The answer, which is kept under the label as `keep` leaves it. None when the connection was closed.

        `keep` gets the plain value of the answer: dicts, lists, numbers and texts.
        """
        self.begin(request, version)
        return self.end(label, keep)

    def begin(self, request: Message, version: int) -> None:
        """Send a request whose answer waits for others; `end` gets it."""
        self._begun = (type(request), version)
        self._send(request, version)

    def end(self, label: str, keep: Callable[[Any], Any] = lambda reply: reply) -> Any:
        """The answer to what was begun, kept as by `ask`."""
        kind, version = self._begun
        try:
            answer = self._answer(kind, version)
        except Closed:
            self._tell(label, "the connection was closed")
            return None
        except TimeoutError:
            self._drop()
            self._tell(label, "no answer")
            return None
        self._tell(label, keep(self._plain.message(answer, version)))
        return answer

    def plain(self, answer: Message, version: int, keep: Callable[[Any], Any]) -> Any:
        """Return an answer that came another way as `ask` keeps it."""
        return self._plain.numbered(keep(self._plain.message(answer, version)))

    def ask_nothing(self, label: str, request: Message, version: int) -> None:
        """Send a request without a response; record whether the connection is still open."""
        self._send(request, version)
        try:
            # The next answer is to this very request, or there was one where there should be none.
            self.call(_ANYTHING, 1)
        except Closed:
            self._tell(label, "the connection was closed")
        else:
            self._tell(label, "no answer")

    def ask_raw_head(self, label: str, frame: bytes) -> None:
        """Sends header and message as they are; keeps the first bytes of the answer, or that there was none."""
        self.ask_raw_bytes(label, len(frame).to_bytes(4, "big") + frame)

    def ask_raw_bytes(self, label: str, data: bytes) -> None:
        """The same with the size as it is."""
        try:
            self._connected().sendall(data)
            self._tell(label, self._receive()[:_HEAD_BYTES].hex())
        except (Closed, ConnectionError):
            self._drop()
            self._tell(label, "the connection was closed")

    # --- what is not ---------------------------------------------------------------------------------------------

    def call(self, request: Message, version: int) -> Any:
        """The answer. Raises Closed."""
        self._send(request, version)
        return self._answer(type(request), version)

    def until(self, request: Message, version: int, holds: Callable[[Any], bool]) -> Any:
        """Asks until the answer is so: a broker may learn of a change after the controller has answered."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds(answer := self.call(request, version)):
            assert time.monotonic() < deadline, f"at last it was: {answer!r}"
            # Polled: nobody tells a client that a broker knows.
            time.sleep(0.02)
        return answer

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Its id. Config keys are written with `_` for `.`."""
        request = CreateTopicsRequest(
            topics=(
                new_topic(name, partitions, configs={key.replace("_", "."): value for key, value in configs.items()}),
            ),
            timeout_ms=TIMEOUT_MS,
        )
        (created,) = self.call(request, 7).topics
        assert created.error_code == 0, created
        self.wait_led(name, partitions)
        topic_id: UUID = created.topic_id
        return topic_id

    def wait_led(self, name: str, partitions: int = 1) -> None:
        """The broker leads all partitions of the topic."""
        wanted = tuple(ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(partitions))
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=name, partitions=wanted),))
        self.until(
            request,
            7,
            lambda reply: all(one.error_code == 0 for topic in reply.topics for one in topic.partitions),
        )

    def wait_known(self, name: str) -> None:
        """The broker knows the topic, which another one may lead."""
        request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        self.until(request, 12, lambda reply: reply.topics[0].error_code == 0)

    def settle(self) -> None:
        """Returns when the broker acts on all that the controller has decided.

        Metadata is applied in order: of two topics, the second being asked for when the first is there, the second is
        applied behind everything that came with the first.
        """
        for _ in range(2):
            self._correlation_id += 1
            self.create_topic(f"{SETTLED}{time.monotonic_ns()}")

    def beside(self, user: str | None = None) -> Peer:
        """Another connection to the same broker, for requests that are answered later, or of another user."""
        other = Peer(":".join(map(str, self._address)), self._plain, self.answers, user)
        self._others.append(other)
        return other

    def close(self) -> None:
        for other in self._others:
            other.close()
        self._drop()

    # --- pieces --------------------------------------------------------------------------------------------------

    def _tell(self, label: str, answer: Any) -> None:
        assert label not in self.answers, f"two answers are labelled {label!r}"
        self.answers[label] = self._plain.numbered(answer)

    def _answer(self, request: type[Message], version: int) -> Any:
        data = self._receive()
        correlation_id, answer = decode_response(response_type(request.message_key), version, memoryview(data))
        assert correlation_id == self._correlation_id, f"an answer to {correlation_id}, not to {self._correlation_id}"
        return answer

    def _send(self, request: Message, version: int) -> None:
        if self._user is not None:
            # The requests of a login come before this one has its number.
            self._connected()
        self._correlation_id += 1
        frame = b"".join(encode_request(request, version, self._correlation_id, _CLIENT_ID))
        try:
            self._connected().sendall(frame)
        except OSError:
            # What it answered before, or that it closed, is still to be read.
            return

    def _receive(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                data = self._connected().recv(count - len(received))
            except ConnectionError:
                data = b""
            if not data:
                self._drop()
                raise Closed
            received += data
        return bytes(received)

    def _connected(self) -> socket.socket:
        if self._line is None:
            # Users ask many at a time, and none of them waits for an answer that does not come.
            self._line = socket.create_connection(
                self._address, _ANSWER_DEADLINE_S if self._user is None else DEADLINE_S
            )
            if self._user is not None:
                self._log_in(self._user)
        return self._line

    def _log_in(self, user: str) -> None:
        mechanism = "PLAIN" if user == ROOT else ScramMechanism.SHA_256.value
        shaken = self.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert shaken.error_code == 0, shaken
        if user == ROOT:
            done = self.call(SaslAuthenticateRequest(auth_bytes=plain_message(user, PASSWORD)), 2)
        else:
            client = ScramClient(ScramMechanism.SHA_256, user, PASSWORD, "nonce")
            challenge = self.call(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
            done = self.call(SaslAuthenticateRequest(auth_bytes=client.final(bytes(challenge.auth_bytes))), 2)
        assert done.error_code == 0, done

    def _drop(self) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.close()
        self._line = None


SETTLED: Final = "settled-"
"""Prefix of the names of topics that only serve to wait for earlier changes."""

_ANYTHING: Final = ListOffsetsRequest(replica_id=-1, topics=())
