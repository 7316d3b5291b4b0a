from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from kraft.rpc import introductions
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.introductions import HEADER, SESSION_FORGOTTEN, ClusterSecrets, SessionBook
from kraft.rpc.pb import membership_pb2

SECRETS = ClusterSecrets([b"the secret of the cluster"])
METHOD = "/kraft.v1.Replication/ReplicaFetch"
FORGOTTEN = grpc.StatusCode.UNAUTHENTICATED, SESSION_FORGOTTEN
STRANGER = grpc.StatusCode.UNAUTHENTICATED, introductions.SECRET_DIFFERS
End = tuple[grpc.StatusCode, str]


def failure(end: End) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(end[0], grpc.aio.Metadata(), grpc.aio.Metadata(), details=end[1])


class Call:
    """A stream that answers so many messages with themselves, and then ends."""

    def __init__(self, session: str, end: End | None, answers: int) -> None:
        self.session = session
        self.end = end
        self.answers = answers
        self.written: list[str] = []
        self.is_over = False
        self.is_cancelled = False
        self._unread = asyncio.Queue[str]()
        if end is not None and answers == 0:
            self.is_over = True

    async def write(self, message: str) -> None:
        await asyncio.sleep(0)
        if self.is_over:
            raise asyncio.InvalidStateError("the call is over")
        self.written.append(message)
        self._unread.put_nowait(message)

    async def read(self) -> str:
        await asyncio.sleep(0)
        if self.end is not None and self.answers == 0:
            self.is_over = True
            raise failure(self.end)
        self.answers -= 1
        return await self._unread.get()

    def done(self) -> bool:
        return self.is_over

    async def code(self) -> grpc.StatusCode:
        assert self.end is not None
        return self.end[0]

    async def details(self) -> str:
        assert self.end is not None
        return self.end[1]

    def cancel(self) -> bool:
        self.is_cancelled = True
        return True


class Server:
    """The other end, which ends the calls made to it as the test says; calls beyond those go on."""

    def __init__(self, *ends: End, answers: int = 0, secrets: ClusterSecrets = SECRETS) -> None:
        self.ends = list(ends)
        self.answers = answers
        self.secrets = secrets
        self.challenged: Callable[[], object] = lambda: None
        self.calls: list[Call] = []
        self.others: list[tuple[str, str | bytes]] = []
        """Metadata of the last call, without the introduction."""

        self.challenges = 0
        self._sessions = SessionBook(bytes(introductions.PROCESS_BYTES))

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        async def challenge(request: membership_pb2.ChallengeRequest, timeout: float) -> object:
            assert method.endswith("Challenge")
            self.challenges += 1
            self.challenged()
            secret = self.secrets.find(request.secret_id)
            if secret is None:
                raise failure(STRANGER)
            session = self._sessions.open()
            proof = introductions.prove(secret, request.nonce, session)
            return membership_pb2.ChallengeResponse(session=session, proof=proof)

        async def heartbeat(request: str, timeout: float, metadata: tuple[tuple[str, Any], ...]) -> object:
            call = self._call(metadata)
            if self.secrets.find(bytes.fromhex(dict(metadata)[HEADER].split(" ")[1])) is None:
                raise failure(STRANGER)
            self.others = [each for each in metadata if each[0] != HEADER]
            await asyncio.sleep(0)
            if call.end is not None:
                raise failure(call.end)
            return request

        return challenge if method.endswith("Challenge") else heartbeat

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        return self._call

    def _call(self, metadata: tuple[tuple[str, str], ...]) -> Call:
        session = dict(metadata)[HEADER].split(" ")[4]
        call = Call(session, self.ends.pop(0) if self.ends else None, self.answers)
        self.calls.append(call)
        return call

    def channel(self, secrets: ClusterSecrets = SECRETS) -> IntroducedChannel:
        return IntroducedChannel(cast(grpc.aio.Channel, self), secrets, "cluster", 7)

    def stream(self) -> Any:
        return self.channel().stream_stream(METHOD)()


def play(scene: Callable[[], Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scene()

    asyncio.run(bounded())


def test_a_stream_whose_session_is_forgotten_restarts_with_what_was_written() -> None:
    async def write_first() -> None:
        server = Server(FORGOTTEN)
        stream = server.stream()
        await stream.write("hello")
        assert await stream.read() == "hello"
        await stream.write("again")
        assert await stream.read() == "again"
        first, second = server.calls
        assert first.session != second.session
        assert second.written == ["hello", "again"]

    play(write_first)


@pytest.mark.parametrize("reader_first", [True, False])
def test_a_stream_that_two_tasks_use_restarts_for_both(reader_first: bool) -> None:
    async def scene() -> None:
        server = Server(FORGOTTEN)
        stream = server.stream()
        tasks = [
            asyncio.ensure_future(part) for part in (stream.read(), stream.write("hello"))[:: 1 if reader_first else -1]
        ]
        results = await asyncio.gather(*tasks)
        assert "hello" in results
        assert server.calls[1].written == ["hello"]
        assert len(server.calls) == server.challenges == 2

    play(scene)


def test_a_stream_whose_new_session_is_forgotten_too_fails_its_writer() -> None:
    async def scene() -> None:
        server = Server(FORGOTTEN, FORGOTTEN)
        with pytest.raises(asyncio.InvalidStateError):
            await server.stream().write("hello")
        assert len(server.calls) == server.challenges == 2

    play(scene)


def test_a_stream_restarts_only_once() -> None:
    async def scene() -> None:
        server = Server(FORGOTTEN, FORGOTTEN)
        stream = server.stream()
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError, match="earlier process"):
                await stream.read()
        assert len(server.calls) == server.challenges == 2

    play(scene)


def test_a_stream_that_was_answered_does_not_restart() -> None:
    async def scene() -> None:
        server = Server(FORGOTTEN, answers=1)
        stream = server.stream()
        await stream.write("hello")
        assert await stream.read() == "hello"
        with pytest.raises(grpc.aio.AioRpcError, match="earlier process"):
            await stream.read()
        assert len(server.calls) == 1

    play(scene)


def test_a_stream_that_wrote_much_before_its_first_response_fails() -> None:
    async def scene() -> None:
        server = Server(FORGOTTEN, answers=1)
        stream = server.stream()
        await stream.write("one")
        await stream.write("two")
        server.calls[0].answers = 0
        with pytest.raises(grpc.aio.AioRpcError, match="earlier process"):
            await stream.read()
        assert len(server.calls) == 1

    play(scene)


def test_a_stranger_is_not_tried_again() -> None:
    async def scene() -> None:
        server = Server(STRANGER, STRANGER)
        with pytest.raises(grpc.aio.AioRpcError, match="cluster secret"):
            await server.stream().read()
        with pytest.raises(grpc.aio.AioRpcError, match="cluster secret"):
            await server.channel().unary_unary("/kraft.v1.Controller/Heartbeat")("beat", timeout=30)
        assert len(server.calls) == 2

    play(scene)


def test_a_stream_that_was_closed_meanwhile_does_not_restart() -> None:
    async def scene() -> None:
        server = Server(FORGOTTEN)
        stream = server.stream()
        server.challenged = lambda: stream.cancel() if server.calls else None
        with pytest.raises(grpc.aio.AioRpcError, match="the stream was closed"):
            await stream.read()
        assert len(server.calls) == 1

    play(scene)


def test_calls_that_lose_their_session_together_share_the_next() -> None:
    async def scene() -> None:
        server = Server(*[FORGOTTEN] * 3)
        call = server.channel().unary_unary("/kraft.v1.Controller/Heartbeat")
        beats = await asyncio.gather(*(call(str(number), timeout=30) for number in range(3)))
        assert beats == ["0", "1", "2"]
        assert len({call.session for call in server.calls[3:]}) == 1
        assert server.challenges == 2

    play(scene)


def test_a_call_has_its_metadata_besides_the_introduction() -> None:
    async def scene() -> None:
        server = Server()
        call = server.channel().unary_unary("/kraft.v1.Controller/Heartbeat")
        assert await call("beat", timeout=5, metadata=(("client-id-bin", b"reports"),)) == "beat"
        assert server.others == [("client-id-bin", b"reports")]
        assert await call("beat", timeout=5, metadata=None) == "beat"
        assert server.others == []

    play(scene)


# --- secrets that are replaced -----------------------------------------------------------------------------------

OLD, NEW, BOTH, NEW_FIRST = (
    ClusterSecrets(list(texts)) for texts in ((b"old",), (b"new",), (b"old", b"new"), (b"new", b"old"))
)


def holding(secrets: ClusterSecrets) -> ClusterSecrets:
    """Secrets of one node, which may be replaced."""
    held = ClusterSecrets([b"none"])
    held.replace(secrets)
    return held


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ((OLD, BOTH, NEW_FIRST, NEW), (BOTH, NEW_FIRST, NEW_FIRST, NEW)),
        ((BOTH, NEW_FIRST, NEW), (OLD, BOTH, NEW_FIRST)),
        # One line after the other was replaced at one end before the other end noticed anything.
        ((OLD, NEW_FIRST, NEW, NEW), (NEW_FIRST, NEW_FIRST, NEW_FIRST, NEW)),
        ((BOTH, NEW, NEW), (BOTH, BOTH, NEW)),
    ],
)
def test_no_call_fails_while_two_nodes_have_a_secret_in_common(
    server: tuple[ClusterSecrets, ...], client: tuple[ClusterSecrets, ...]
) -> None:
    async def scene() -> None:
        other, own = Server(secrets=holding(server[0])), holding(client[0])
        call = other.channel(own).unary_unary("/kraft.v1.Controller/Heartbeat")
        for theirs, ours in zip(server, client, strict=True):
            other.secrets.replace(theirs)
            assert await call("theirs have changed", timeout=30) == "theirs have changed"
            own.replace(ours)
            assert await call("ours have changed", timeout=30) == "ours have changed"

    play(scene)


def test_a_secret_that_was_removed_is_used_no_more() -> None:
    async def scene() -> None:
        other, own = Server(secrets=holding(BOTH)), holding(BOTH)
        call = other.channel(own).unary_unary("/kraft.v1.Controller/Heartbeat")
        await call("beat", timeout=30)
        own.replace(NEW)
        other.secrets.replace(OLD)
        with pytest.raises(grpc.aio.AioRpcError, match="cluster secret"):
            await call("beat", timeout=30)
        first, *further = other.calls
        assert (bool(first), further) == (True, [])

    play(scene)


def test_a_connection_is_introduced_with_a_secret_that_the_other_end_knows() -> None:
    async def scene() -> None:
        other, own = Server(secrets=holding(OLD)), holding(NEW_FIRST)
        channel = other.channel(own)
        told = await channel.introduce(METHOD, b"nonce")
        session = bytes.fromhex(told.header.split(" ")[4])
        assert told.proof == introductions.prove_connection(OLD.primary, b"nonce", session)
        assert told.needs_session(introductions.SECRET_DIFFERS)
        assert told.needs_session(SESSION_FORGOTTEN)
        assert not told.needs_session("its session was never opened")
        other.secrets.replace(NEW)
        told.forget()
        again = await channel.introduce(METHOD, b"nonce")
        session = bytes.fromhex(again.header.split(" ")[4])
        assert again.proof == introductions.prove_connection(NEW.primary, b"nonce", session)

    play(scene)
