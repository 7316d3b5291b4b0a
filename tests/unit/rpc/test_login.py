from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.password import Password
from kraft.model.principal import ANONYMOUS, Principal
from kraft.rpc import login_service
from kraft.rpc.calls import FETCH, METADATA
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.introductions import HEADER as INTRODUCTION
from kraft.rpc.login_channel import LoginChannel
from kraft.rpc.login_service import LOGIN_MESSAGE_BYTES_MAX, LOGINS_OF_HOST_MAX, Logins, LoginService
from kraft.rpc.pb import login_pb2, login_pb2_grpc
from kraft.rpc.peers import CallStream, PeerConnections, Unreachable
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.services import STREAM_REQUESTS_IN_FLIGHT_MAX
from kraft.rpc.session_tokens import LOGIN_NEEDED, SESSION_OVER
from kraft.sasl.client import PasswordLogin
from kraft.sasl.login import LoginFailed
from kraft.sasl.mechanisms import SaslMechanism
from kraft.wire.schema.metadata import MetadataResponse
from tests.unit.rpc.closed_node import NEEDED, PASSWORD, SECRETS, ClosedNode, dialling_as

DEADLINE_S = 10.0


async def asked(node: ClosedNode, connections: PeerConnections) -> MetadataResponse:
    return await connections.peer(node.address).call(METADATA, metadata_of(()), DEADLINE_S)


def play(scene: Callable[[ClosedNode], Awaitable[None]], node: ClosedNode | None = None, **how: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            served = node or ClosedNode()
            async with served.serving(**how):
                await scene(served)

    asyncio.run(bounded())


@pytest.mark.parametrize("mechanism", [SaslMechanism.SCRAM_SHA_256, SaslMechanism.PLAIN])
def test_a_client_logs_in_once_and_its_calls_have_its_principal(mechanism: SaslMechanism) -> None:
    async def scene(node: ClosedNode) -> None:
        connections = dialling_as(mechanism=mechanism)
        await asyncio.gather(*(asked(node, connections) for _ in range(5)))
        assert node.callers == [Principal("alice")] * 5
        assert node.logins == 1
        await connections.close()

    play(scene)


def test_a_client_without_a_login_is_told_what_is_missing() -> None:
    async def scene(node: ClosedNode) -> None:
        connections = PeerConnections()
        with pytest.raises(Refusal) as refused:
            await asked(node, connections)
        assert str(refused.value) == f"ILLEGAL_SASL_STATE: {node.address}: {NEEDED}"
        stream = connections.peer(node.address).open(FETCH)
        with pytest.raises(Refusal, match=LOGIN_NEEDED):
            await stream.receive()
        assert node.callers == []
        await connections.close()

    play(scene)


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ({"password": "wrong"}, ErrorCode.SASL_AUTHENTICATION_FAILED, "invalid credentials with SASL mechanism SCRAM"),
        ({"user": "nobody"}, ErrorCode.SASL_AUTHENTICATION_FAILED, "invalid credentials with SASL mechanism SCRAM"),
        (
            {"mechanism": SaslMechanism.SCRAM_SHA_512},
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "enabled mechanisms are SCRAM-SHA-256, PLAIN",
        ),
    ],
)
def test_a_login_that_fails_is_kafkas_error_and_one_line_of_the_log(
    given: dict[str, Any], code: ErrorCode, told: str
) -> None:
    async def scene(node: ClosedNode) -> None:
        connections = dialling_as(**given)
        for _ in range(3):
            with pytest.raises(Refusal, match=told) as refused:
                await asked(node, connections)
            assert refused.value.error_code == code
        stream = connections.peer(node.address).open(FETCH)
        with pytest.raises(Refusal, match=told):
            await stream.receive()
        assert node.callers == []
        await connections.close()

    with capture_logs() as logs:
        play(scene)
    assert [line["event"] for line in logs].count("peer refused") == 1
    assert PASSWORD not in str(logs)
    assert "wrong" not in str(logs)


def test_a_login_that_may_succeed_later_is_no_refusal() -> None:
    async def scene(node: ClosedNode) -> None:
        node.failure = LoginFailed(
            ErrorCode.SASL_AUTHENTICATION_FAILED, "no keys", "there are no keys yet", is_passing=True
        )
        connections = dialling_as()
        with pytest.raises(Unreachable, match="there are no keys yet"):
            await asked(node, connections)
        node.failure = None
        await asked(node, connections)
        await connections.close()

    play(scene)


def test_a_client_that_has_logged_in_outlasts_a_moment_without_credentials() -> None:
    found = False

    async def login() -> PasswordLogin:
        if not found:
            raise KraftError("there is no token")
        return PasswordLogin(mechanism=SaslMechanism.PLAIN, user="alice", password=Password(PASSWORD))

    def dial(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        return LoginChannel(grpc.aio.insecure_channel(address, options=options), login)

    async def scene(node: ClosedNode) -> None:
        nonlocal found
        connections = PeerConnections(dial)
        with pytest.raises(Refusal, match="SASL_AUTHENTICATION_FAILED: no credentials: there is no token"):
            await asked(node, connections)
        found = True
        await asked(node, connections)
        found, node.now_ms = False, 10_000
        with pytest.raises(Unreachable, match="no credentials: there is no token"):
            await asked(node, connections)
        found = True
        await asked(node, connections)
        await connections.close()

    play(scene, ClosedNode(reauthentication_ms_max=5_000))


def test_a_client_that_logs_in_at_an_open_listener_is_told_so() -> None:
    async def scene(node: ClosedNode) -> None:
        connections = dialling_as()
        with pytest.raises(Refusal, match="ILLEGAL_SASL_STATE: the listener has no SASL"):
            await asked(node, connections)
        await connections.close()

    play(scene, is_closed=False, answers_logins=False)


def test_forged_and_foreign_sessions_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(node: ClosedNode) -> None:
        async with grpc.aio.insecure_channel(node.address) as channel:
            call: Any = channel.unary_unary(METADATA.method, METADATA.request.serialize, METADATA.response.parse)
            for shown in ("Bearer forged", "Bearer ", "forged", ""):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(METADATA.request.to_message(metadata_of(())), metadata=(("authorization", shown),))
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                assert refused.value.details() == SESSION_OVER
        assert node.callers == []

    play(scene)


def test_nobody_becomes_a_node_or_a_user_by_a_header_alone() -> None:
    forged = ((INTRODUCTION, "1 00 cluster 7 00 1 00"), ("authorization", "Bearer forged"))

    async def ask(node: ClosedNode) -> None:
        async with grpc.aio.insecure_channel(node.address) as channel:
            call: Any = channel.unary_unary(METADATA.method, METADATA.request.serialize, METADATA.response.parse)
            await call(METADATA.request.to_message(metadata_of(())), metadata=forged)

    async def at_closed(node: ClosedNode) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match="cluster secret differs"):
            await ask(node)
        assert node.callers == []

    async def at_open(node: ClosedNode) -> None:
        await ask(node)
        assert node.callers == [ANONYMOUS]

    play(at_closed)
    play(at_open, is_closed=False)


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_message_of_a_login_is_bounded_also_where_nobody_has_to_log_in(is_closed: bool) -> None:
    async def scene(node: ClosedNode) -> None:
        async with grpc.aio.insecure_channel(node.address) as channel:
            call = login_pb2_grpc.AuthenticationStub(channel).Login()
            await call.write(login_pb2.LoginRequest(mechanism="\x01" * (LOGIN_MESSAGE_BYTES_MAX + 1)))
            with pytest.raises(grpc.aio.AioRpcError, match="is larger than") as refused:
                await call.read()
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert node.logins == 1

    play(scene, is_closed=is_closed)


def test_a_node_introduces_itself_and_needs_no_login() -> None:
    async def scene(node: ClosedNode) -> None:
        def dial(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
            return IntroducedChannel(grpc.aio.insecure_channel(address, options=options), SECRETS, "cluster", 7)

        connections = PeerConnections(dial)
        await asked(node, connections)
        assert node.callers == [Principal("7", "Node")]
        assert node.logins == 0
        await connections.close()

    play(scene)


class _Refused(Exception):
    pass


def test_a_call_without_a_session_is_refused_before_its_message_is_read() -> None:
    async def scene(node: ClosedNode) -> None:
        async def aborted(code: grpc.StatusCode, _: str) -> None:
            assert code is grpc.StatusCode.UNAUTHENTICATED
            raise _Refused

        async def served(_: object) -> Any:
            return grpc.unary_unary_rpc_method_handler(cast(Any, unread))

        async def unread(*_: object) -> None:
            raise AssertionError("its message was read")

        details = SimpleNamespace(method=METADATA.method, invocation_metadata=())
        handler: Any = await node.gatekeeper.intercept_service(cast(Any, served), cast(Any, details))
        with pytest.raises(_Refused):
            await handler.stream_stream(None, SimpleNamespace(peer=lambda: "ipv4:127.0.0.1:1", abort=aborted))

    play(scene)


async def opened(node: ClosedNode, connections: PeerConnections) -> CallStream[FetchRequest, FetchResponse]:
    """Return a stream that has answered once."""
    stream = connections.peer(node.address).open(FETCH)
    await stream.send(FETCH_NOTHING)
    await stream.receive()
    return stream


FETCH_NOTHING = FetchRequest(request_id=1, max_wait_ms=0, min_bytes=0, max_bytes=1, partitions=[])
FETCH_WAITING = FetchRequest(request_id=2, max_wait_ms=60_000, min_bytes=1, max_bytes=1, partitions=[])


def test_a_session_that_is_over_ends_streams_at_their_next_request_and_calls_go_on_in_a_new_one() -> None:
    async def scene(node: ClosedNode) -> None:
        connections = dialling_as()
        stream = await opened(node, connections)
        await stream.send(FETCH_NOTHING)
        await stream.receive()
        node.now_ms = 1_001
        await stream.send(FETCH_NOTHING)
        with pytest.raises(Unreachable, match="its session is over"):
            await stream.receive()
        assert node.logins == 1
        await asked(node, connections)
        await opened(node, connections)
        assert node.logins == 2
        await connections.close()

    play(scene, ClosedNode(reauthentication_ms_max=1_000))


def test_a_restarted_node_gets_a_new_login_before_any_call_fails() -> None:
    async def scene() -> None:
        node, connections = ClosedNode(), dialling_as()
        async with node.serving():
            await asked(node, connections)
            await opened(node, connections)
        async with node.serving():
            await asyncio.gather(*(asked(node, connections) for _ in range(5)))
            assert node.logins == 2
        async with node.serving():
            await opened(node, connections)
            assert node.logins == 3
        await connections.close()

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scene()

    asyncio.run(bounded())


async def ends_with_alice(node: ClosedNode, stream: CallStream[FetchRequest, FetchResponse]) -> None:
    """Delete alice, and see the stream end that waits for an answer."""
    waiting = asyncio.create_task(stream.receive())
    await asyncio.sleep(0.05)
    node.users.discard("alice")
    node.gate.users_changed()
    async with asyncio.timeout(2):
        with pytest.raises(Unreachable, match="its session is over"):
            await waiting


def test_a_deleted_user_makes_no_more_calls_and_its_open_streams_end_at_once() -> None:
    async def scene(node: ClosedNode) -> None:
        alice, bob = dialling_as("alice"), dialling_as("bob")
        of_alice, of_bob = await opened(node, alice), await opened(node, bob)
        await ends_with_alice(node, of_alice)
        with pytest.raises(Refusal, match="SASL_AUTHENTICATION_FAILED"):
            await asked(node, alice)
        await of_bob.send(FETCH_NOTHING)
        await of_bob.receive()
        await asked(node, bob)
        for connections in (alice, bob):
            await connections.close()

    play(scene)


@pytest.mark.parametrize("count", [1, STREAM_REQUESTS_IN_FLIGHT_MAX + 6])
def test_a_deleted_user_gets_no_records_for_which_its_fetches_wait(count: int) -> None:
    async def scene(node: ClosedNode) -> None:
        connections = dialling_as("alice")
        stream = await opened(node, connections)
        for _ in range(count):
            await stream.send(FETCH_WAITING)
        await ends_with_alice(node, stream)
        await connections.close()

    play(scene)


def test_a_session_whose_time_is_over_still_gets_the_answers_that_it_waits_for() -> None:
    async def scene(node: ClosedNode) -> None:
        connections = dialling_as("alice")
        stream = await opened(node, connections)
        await stream.send(FETCH_WAITING)
        await asyncio.sleep(0.05)
        node.now_ms = 1_001
        node.users.discard("bob")
        node.gate.users_changed()
        node.new_records.set()
        await stream.receive()
        await connections.close()

    play(scene, ClosedNode(reauthentication_ms_max=1_000))


def test_a_client_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_service, "LOGIN_S_MAX", 0.2)

    async def scene(node: ClosedNode) -> None:
        async with grpc.aio.insecure_channel(node.address) as channel:
            call = login_pb2_grpc.AuthenticationStub(channel).Login()
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await call.read()
            assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    play(scene)


def test_silent_logins_of_a_host_make_room_for_others_of_it() -> None:
    async def scene(node: ClosedNode) -> None:
        async with grpc.aio.insecure_channel(node.address) as channel:
            silent = [login_pb2_grpc.AuthenticationStub(channel).Login() for _ in range(LOGINS_OF_HOST_MAX)]
            for call in silent:
                await call.write(login_pb2.LoginRequest(mechanism="SCRAM-SHA-256", auth_bytes=b"n,,n=alice,r=x"))
                await call.read()
            await asked(node, dialling_as())
            codes = {asyncio.ensure_future(call.code()): call for call in silent}
            (ended,), others = await asyncio.wait(codes, return_when=asyncio.FIRST_COMPLETED)
            assert ended.result() is grpc.StatusCode.UNAVAILABLE
            assert "made room for those of others" in (await codes[ended].details() or "")
            for code in others:
                code.cancel()

    play(scene)


def test_a_login_makes_room_for_another_one_while_its_own_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both at the same turn of the loop: the second one must not fail for what happens to the first."""
    monkeypatch.setattr(login_service, "LOGIN_S_MAX", 0.05)
    monkeypatch.setattr(login_service, "LOGINS_OF_HOST_MAX", 1)

    class Call:
        def peer(self) -> str:
            return "ipv4:10.0.0.7:5100"

        async def abort(self, code: grpc.StatusCode, _: str) -> None:
            raise RuntimeError(code.name)

    async def silence() -> AsyncIterator[login_pb2.LoginRequest]:
        await asyncio.sleep(60)
        yield login_pb2.LoginRequest()

    async def both() -> list[BaseException | Any]:
        node = ClosedNode()
        logins = Logins(
            begin=node._begin, answer=node._answer, delay_failure=cast(Any, silence), monotonic_ms=lambda: 0
        )
        service = LoginService(logins, node.tokens, RefusalLog(lambda: 0))
        calls: list[asyncio.Task[Any]] = []

        def begin() -> None:
            login = service.Login(silence(), cast(Any, Call()))
            calls.append(asyncio.create_task(cast(Any, anext(login))))

        begin()
        await asyncio.sleep(0)
        # Before the first one's deadline, but in the same turn: the loop is busy until both are due.
        asyncio.get_running_loop().call_later(0.04, begin)
        asyncio.get_running_loop().call_soon(time.sleep, 0.1)
        await asyncio.sleep(0.05)
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [str(error) for error in asyncio.run(both())] == ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (
            login_pb2.LoginRequest(mechanism="SCRAM-SHA-256", auth_bytes=b"x" * 2_000),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            login_pb2.LoginRequest(mechanism="SCRAM-SHA-256", auth_bytes=b"garbage"),
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
        (login_pb2.LoginRequest(auth_bytes=b"n,,n=alice,r=x"), grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
def test_a_login_of_other_bytes_is_refused(request_: login_pb2.LoginRequest, code: grpc.StatusCode) -> None:
    async def scene(node: ClosedNode) -> None:
        async with grpc.aio.insecure_channel(node.address) as channel:
            call = login_pb2_grpc.AuthenticationStub(channel).Login()
            await call.write(request_)
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await call.read()
            assert ended.value.code() is code
        await asked(node, dialling_as())

    play(scene)
