"""Login of Kafka's clients, frame by frame: what is answered before it, what after it, and what ends the connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.principal import Principal
from kraft.rpc.frame_exchange import HELLO_KEY
from kraft.sasl.login import (
    TOKEN_MESSAGE_BYTES_MAX,
    LoginRules,
    LoginStep,
    Moment,
    SaslLogin,
    Session,
)
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ScramMechanism
from kraft.sasl.scram_client import ScramClient
from kraft.server.handlers.login import refuse_authenticate, refuse_handshake
from kraft.server.identity.authenticator import Authenticator
from kraft.server.kafka_listener.answering import CloseConnection, TakenOver
from kraft.server.kafka_listener.handled import HandledApi
from kraft.server.kafka_listener.login_requests import REQUESTS_MAX, LoginRequests
from kraft.server.kafka_listener.requests import Api, ConnectionContext, KafkaRequests
from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, decode_response, encode_request
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.wire.schema.produce import ProduceRequest
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.scram_users import deletion_records, password_records, replayed, users
from tests.support.virtual_time import LoopClock, Unchanging

M = TypeVar("M", bound=Message)

INIT = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)


def frame(request: Message, version: int) -> memoryview:
    return memoryview(b"".join(encode_request(request, version, 7, "tester")))[SIZE_BYTES:]


class Client:
    """One connection, and what reached the handlers behind it."""

    def __init__(self, *mechanisms: SaslMechanism, reauthentication_ms_max: int = 0, delay_ms: int = 0) -> None:
        self.users = users({"alice": "secret", "bob": "secret"})
        self.calls: list[ConnectionContext] = []
        rules = LoginRules(
            mechanisms=mechanisms or (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512),
            reauthentication_ms_max=reauthentication_ms_max,
        )
        self.noted: list[tuple[str, Any]] = []
        authenticator = Authenticator(
            lambda: self.users,
            Unchanging(),
            LoopClock(),
            failure_delay_ms=delay_ms,
            noted=lambda address, outcome: self.noted.append((address, outcome)),
        )
        apis: Mapping[ApiKey, Api] = {
            ApiKey.API_VERSIONS: lambda *_: ApiVersionsResponse(error_code=self.versions_error, api_keys=()),
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.SASL_HANDSHAKE: HandledApi(ApiKey.SASL_HANDSHAKE, refuse_handshake),
            ApiKey.SASL_AUTHENTICATE: HandledApi(ApiKey.SASL_AUTHENTICATE, refuse_authenticate),
        }
        self.versions_error = ErrorCode.NONE
        behind = KafkaRequests(apis, "10.0.0.7:5100", nodes=Nodes(), listener="SECURE")
        self.requests = LoginRequests(authenticator, rules, behind, apis, "10.0.0.7")

    def _init(self, request: Any, call: ConnectionContext) -> InitProducerIdResponse:
        self.calls.append(call)
        return InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=0)

    async def send(self, frame: memoryview) -> bytes:
        begun = self.requests.begin(frame)
        return b"".join(await begun if isinstance(begun, Awaitable) else begun)

    async def ask(self, request: Message, version: int, kind: type[M]) -> M:
        return answered(await self.send(frame(request, version)), kind, version)

    async def refused(self, frame: memoryview) -> CloseConnection:
        with pytest.raises(CloseConnection) as closed:
            await self.send(frame)
        return closed.value

    async def shake_hands(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)

    async def authenticate(self, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=message)
        return await self.ask(request, version, SaslAuthenticateResponse)

    async def log_in(self, user: str = "alice", version: int = 2) -> SaslAuthenticateResponse:
        client = ScramClient(ScramMechanism.SHA_256, user, "secret", "nonce")
        await self.shake_hands("SCRAM-SHA-256")
        challenge = await self.authenticate(client.first(), version)
        done = await self.authenticate(client.final(bytes(challenge.auth_bytes)), version)
        client.finish(bytes(done.auth_bytes))
        return done


class Nodes:
    """Every node is one of the cluster."""

    def admit(self, version: int, frame: memoryview, peer: str, certificate: bytes | None = None) -> Any:
        return "what serves it"


def answered(response: bytes, kind: type[M], version: int) -> M:
    correlation_id, message = decode_response(kind, version, response[SIZE_BYTES:])
    assert correlation_id == 7
    return message


def authenticate(message: bytes, version: int = 2) -> memoryview:
    return frame(SaslAuthenticateRequest(auth_bytes=message), version)


async def test_requests_after_login_have_the_principal_and_the_listener() -> None:
    client = Client()
    assert not client.requests.is_trusted
    assert (await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)).error_code == ErrorCode.NONE
    shaken = await client.shake_hands("SCRAM-SHA-256")
    assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.NONE, ("SCRAM-SHA-256", "SCRAM-SHA-512"))
    client = Client()
    done = await client.log_in()
    assert (done.error_code, done.error_message, done.session_lifetime_ms) == (ErrorCode.NONE, None, 0)
    assert client.requests.is_trusted
    await client.ask(INIT, 4, InitProducerIdResponse)
    (call,) = client.calls
    assert (call.principal, call.listener) == (Principal("alice"), "SECURE")
    assert client.requests.client().principal == Principal("alice")


@pytest.mark.parametrize("request_", [INIT, ProduceRequest(acks=1, timeout_ms=0, topic_data=())])
async def test_nothing_else_is_answered_before_login(request_: Message) -> None:
    client = Client()
    closed = await client.refused(frame(request_, 4 if request_ is INIT else 9))
    assert "before login" in str(closed)
    assert closed.response == []
    assert client.calls == []


async def test_nothing_else_is_answered_between_the_steps_of_a_login() -> None:
    client = Client()
    await client.shake_hands("SCRAM-SHA-256")
    await client.authenticate(ScramClient(ScramMechanism.SHA_256, "alice", "secret", "nonce").first())
    assert "before login" in str(await client.refused(frame(INIT, 4)))
    assert client.calls == []


async def test_produce_requests_do_not_overlap_before_login() -> None:
    client = Client()
    produce = frame(ProduceRequest(acks=1, timeout_ms=0, topic_data=()), 9)
    assert not client.requests.is_pipelined(produce)
    assert not client.requests.is_pipelined(memoryview(b""))
    await client.log_in()
    assert client.requests.is_pipelined(produce)


async def test_the_versions_are_told_once() -> None:
    client = Client()
    await client.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)
    closed = await client.refused(frame(ApiVersionsRequest(), 3))
    assert answered(b"".join(closed.response), ApiVersionsResponse, 3).error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_a_client_that_asks_for_the_versions_wrongly_may_ask_again() -> None:
    client = Client()
    unknown = memoryview(b"\x00\x12\x00\x63" + bytes(frame(ApiVersionsRequest(), 0))[4:])
    response = answered(await client.send(unknown), ApiVersionsResponse, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    client.versions_error = ErrorCode.INVALID_REQUEST
    assert (await client.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)).error_code == ErrorCode.INVALID_REQUEST
    client.versions_error = ErrorCode.NONE
    await client.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)
    await client.log_in()


async def test_a_stranger_has_a_few_requests() -> None:
    """Each of these is answered, and none ends the connection by itself."""
    unknown_version = memoryview(b"\x00\x12\x00\x63" + bytes(frame(ApiVersionsRequest(), 0))[4:])
    client = Client()
    for _ in range(REQUESTS_MAX - 3):
        await client.send(unknown_version)
    await client.log_in()
    for _ in range(REQUESTS_MAX):
        await client.send(unknown_version)
    stranger = Client()
    for _ in range(REQUESTS_MAX):
        await stranger.send(unknown_version)
    assert str(await stranger.refused(unknown_version)) == f"more than {REQUESTS_MAX} requests before login"


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    client = Client(SaslMechanism.SCRAM_SHA_512)
    closed = await client.refused(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    response = answered(b"".join(closed.response), SaslHandshakeResponse, 1)
    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("SCRAM-SHA-512",))


@pytest.mark.real_time
async def test_a_mechanism_that_is_not_enabled_is_refused_after_the_delay() -> None:
    client = Client(SaslMechanism.SCRAM_SHA_512, delay_ms=50)
    began_s = time.monotonic()
    await client.refused(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    assert time.monotonic() - began_s >= 0.045


async def test_a_mechanism_changed_in_the_middle_ends_the_connection() -> None:
    client = Client(SaslMechanism.SCRAM_SHA_256, SaslMechanism.PLAIN)
    await client.shake_hands("SCRAM-SHA-256")
    closed = await client.refused(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    response = answered(b"".join(closed.response), SaslHandshakeResponse, 1)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_wrong_password_is_told_in_the_last_response(version: int) -> None:
    client = Client(delay_ms=100)
    scram = ScramClient(ScramMechanism.SHA_256, "alice", "guessed", "nonce")
    await client.shake_hands("SCRAM-SHA-256")
    challenge = await client.authenticate(scram.first(), version)
    began_s = asyncio.get_running_loop().time()
    closed = await client.refused(authenticate(scram.final(bytes(challenge.auth_bytes)), version))
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.1)
    response = answered(b"".join(closed.response), SaslAuthenticateResponse, version)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert "'alice' does not exist, or has another password" in str(closed)
    assert not client.requests.is_trusted


async def test_raw_tokens_follow_the_oldest_handshake() -> None:
    client = Client()
    scram = ScramClient(ScramMechanism.SHA_512, "bob", "secret", "nonce")
    await client.shake_hands("SCRAM-SHA-512", version=0)
    challenge = await client.send(memoryview(scram.first()))
    assert int.from_bytes(challenge[:4], "big") == len(challenge) - 4
    done = await client.send(memoryview(scram.final(challenge[4:])))
    scram.finish(done[4:])
    await client.ask(INIT, 4, InitProducerIdResponse)
    assert [call.principal for call in client.calls] == [Principal("bob")]


async def test_a_raw_token_that_is_wrong_ends_the_connection_without_a_word() -> None:
    client = Client()
    await client.shake_hands("SCRAM-SHA-512", version=0)
    # It would be a request for the versions.
    closed = await client.refused(frame(ApiVersionsRequest(), 0))
    assert closed.response == []


@pytest.mark.real_time
async def test_plain_in_raw_tokens_ends_with_an_empty_one() -> None:
    client = Client(SaslMechanism.PLAIN)
    await client.shake_hands("PLAIN", version=0)
    assert await client.send(memoryview(plain_message("alice", "secret"))) == bytes(4)
    assert client.requests.is_trusted


async def test_nodes_of_the_cluster_introduce_themselves_before_login() -> None:
    hello = HELLO_KEY.to_bytes(2, "big") + b"\0\x01" + bytes(4) + b"\xff\xff" + bytes(100)
    with pytest.raises(TakenOver):
        await Client().send(memoryview(hello))


async def test_login_requests_have_no_place_after_login() -> None:
    client = Client()
    await client.log_in()
    shaken = await client.shake_hands("SCRAM-SHA-256")
    assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())
    answer = await client.authenticate(b"token")
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    await client.ask(INIT, 4, InitProducerIdResponse)


async def test_a_session_ends_with_the_next_request_after_its_time() -> None:
    client = Client(reauthentication_ms_max=60_000)
    assert (await client.log_in()).session_lifetime_ms == 60_000
    await asyncio.sleep(60)
    await client.ask(INIT, 4, InitProducerIdResponse)
    await asyncio.sleep(0.002)
    assert "session of User:alice is over" in str(await client.refused(frame(INIT, 4)))
    assert len(client.calls) == 1


async def test_a_client_that_logs_in_again_goes_on_even_after_its_time() -> None:
    client = Client(reauthentication_ms_max=60_000)
    await client.log_in()
    await asyncio.sleep(61)
    assert (await client.log_in()).session_lifetime_ms == 60_000
    await asyncio.sleep(59)
    await client.ask(INIT, 4, InitProducerIdResponse)


async def test_a_client_cannot_become_another_one() -> None:
    client = Client(reauthentication_ms_max=60_000)
    await client.log_in()
    scram = ScramClient(ScramMechanism.SHA_256, "bob", "secret", "nonce")
    await client.shake_hands("SCRAM-SHA-256")
    challenge = await client.authenticate(scram.first())
    closed = await client.refused(authenticate(scram.final(bytes(challenge.auth_bytes))))
    response = answered(b"".join(closed.response), SaslAuthenticateResponse, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"


async def test_a_client_of_a_deleted_user_has_to_go() -> None:
    client = Client()
    assert client.requests.objection() is None
    await client.log_in()
    assert [client.requests.objection() for _ in range(2)] == [None, None]
    client.users = users({"alice": "another", "bob": "secret"})
    assert client.requests.objection() is None
    client.users = users({"bob": "secret"})
    assert client.requests.objection() == "user 'alice' was deleted"


async def test_a_client_of_a_user_that_was_deleted_and_made_again_meanwhile_has_to_go() -> None:
    client = Client()
    await client.log_in()
    client.users = replayed(client.users, [*deletion_records("alice"), *password_records("alice", "secret")])
    assert client.requests.objection() == "user 'alice' was deleted"
    newcomer = Client()
    newcomer.users = client.users
    await newcomer.log_in()
    assert newcomer.requests.objection() is None
    newcomer.users = replayed(newcomer.users, password_records("alice", "another"))
    assert newcomer.requests.objection() is None


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_login_that_began_before_the_password_was_changed_does_not_end_with_the_old_one(
    is_deleted: bool,
) -> None:
    client = Client()
    scram = ScramClient(ScramMechanism.SHA_256, "alice", "secret", "nonce")
    await client.shake_hands("SCRAM-SHA-256")
    challenge = await client.authenticate(scram.first())
    records = password_records("alice", "another")
    client.users = replayed(client.users, [*deletion_records("alice"), *records] if is_deleted else records)
    closed = await client.refused(authenticate(scram.final(bytes(challenge.auth_bytes))))
    assert "'alice' does not exist, or has another password" in str(closed)
    assert not client.requests.is_trusted


async def test_the_user_is_looked_up_again_only_when_users_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand connections ask once a second."""
    asked: list[Session] = []
    client = Client()
    await client.log_in()
    monkeypatch.setattr(Authenticator, "objection", lambda _, session: asked.append(session))
    for _ in range(3):
        assert client.requests.objection() is None
    assert len(asked) == 1
    client.users = users({"alice": "another"})
    for _ in range(3):
        assert client.requests.objection() is None
    assert len(asked) == 2


@pytest.mark.parametrize("is_raw", [False, True])
async def test_of_a_message_that_is_too_long_only_the_beginning_is_copied(
    is_raw: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    beyond = SaslLogin.received

    def noted(login: SaslLogin, message: bytes, now: Moment) -> LoginStep:
        received.append(len(message))
        return beyond(login, message, now)

    monkeypatch.setattr(SaslLogin, "received", noted)
    client, message = Client(), b"n" * 500_000
    await client.shake_hands("SCRAM-SHA-256", version=0 if is_raw else 1)
    closed = await client.refused(memoryview(message) if is_raw else authenticate(message))
    assert "is longer than" in str(closed)
    assert received == [TOKEN_MESSAGE_BYTES_MAX + 1]


async def test_a_client_that_logged_in_with_raw_tokens_logs_in_again_with_kafkas_headers() -> None:
    client = Client(SaslMechanism.SCRAM_SHA_256, reauthentication_ms_max=60_000)
    scram = ScramClient(ScramMechanism.SHA_256, "alice", "secret", "nonce")
    await client.shake_hands("SCRAM-SHA-256", version=0)
    challenge = await client.send(memoryview(scram.first()))
    await client.send(memoryview(scram.final(challenge[4:])))
    await asyncio.sleep(50)
    assert (await client.log_in()).session_lifetime_ms == 60_000


async def test_a_client_does_not_become_a_node_while_it_logs_in_again() -> None:
    client = Client(reauthentication_ms_max=60_000)
    await client.log_in()
    await client.shake_hands("SCRAM-SHA-256")
    hello = HELLO_KEY.to_bytes(2, "big") + b"\0\x01" + bytes(4) + b"\xff\xff" + bytes(100)
    assert "before login" in str(await client.refused(memoryview(hello)))


async def test_a_key_that_ends_as_the_handshakes_begins_no_login() -> None:
    client = Client(reauthentication_ms_max=60_000)
    await client.log_in()
    other = memoryview(b"\x01" + bytes(frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))[1:])
    assert str(await client.refused(other)) == "API key 273 is not supported"


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x60\x82\x02\x63",
        bytes(8),
        b"\x00\x11\x00\x01\x00\x00\x00\x07\xff\xff\x7f\xff",
        b"\x00\x24\x00\x02\x00\x00\x00\x07\xff\xff" + b"\x80" * 40,
        b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\xff\xff\x03" + bytes(200_000),
        b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\x41" + 65 * b"\x09\x00" + b"\x02a\x02b\x00",
        b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\x00\x02a\x02b\x41" + 65 * b"\x09\x00",
        b"\xff" * 500,
    ],
)
async def test_garbage_before_login_ends_the_connection(garbage: bytes) -> None:
    client = Client()
    assert (await client.refused(memoryview(garbage))).response == []


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (SaslHandshakeRequest(mechanism="GSSAPI"), 1, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (SaslAuthenticateRequest(auth_bytes=b"early"), 2, ErrorCode.ILLEGAL_SASL_STATE),
        (INIT, 1, ErrorCode.ILLEGAL_SASL_STATE),
    ],
    ids=["no such mechanism", "no handshake", "no login"],
)
async def test_a_login_that_fails_before_its_exchange_is_noted_once(
    request_: Message, version: int, code: ErrorCode
) -> None:
    client = Client()
    await client.refused(frame(request_, version))
    ((address, failed),) = client.noted
    assert address == "10.0.0.7"
    assert failed.error_code == code
