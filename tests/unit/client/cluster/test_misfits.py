"""Clients and listeners that do not fit: each pair of real ones, and the words of each error."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import pytest

from kraft.client.cluster import listener_look
from kraft.client.cluster.listener_look import Looked, handshake_messages, is_tls, look
from kraft.client.cluster.misfits import Misfits, objection
from kraft.client.cluster.network import Network
from kraft.client.model.errors import AuthenticationFailed
from kraft.client.model.security import OPEN, ClientSecurity, TokenSource
from kraft.client.model.settings import AdminSettings
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.password import Password
from kraft.rpc.calls import METADATA
from kraft.rpc.peers import NotGrpc, Unreachable
from kraft.rpc.secure_channel import server_credentials
from kraft.rpc.services import Service
from kraft.sasl.client import PasswordLogin
from kraft.sasl.mechanisms import SaslMechanism
from kraft.tls.contexts import server_context
from kraft.tls.stores import ClientAuth, KeyStoreFile, TlsSettings, TrustStoreFile
from kraft.wire.frame import decode_request_header, encode_response
from kraft.wire.schema.api_versions import ApiVersionsResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.certificates import Authority, Stores

pytestmark = pytest.mark.real_time

HAS_TLS: Final = "it has TLS: set security.protocol to SSL"
NO_TLS: Final = "it has no TLS: set security.protocol to PLAINTEXT"
OTHER_PROTOCOL: Final = "use the address of a GRPC listener (default port 9094)"


class World:
    """Certificates of one authority, and of a foreign one."""

    def __init__(self, directory: Path) -> None:
        own, foreign = Authority(directory / "own"), Authority(directory / "foreign")
        self.node, self.client = own.certify("node"), own.certify("client")
        self.elsewhere = own.certify("elsewhere", names="DNS:elsewhere.example")
        self.foreign = foreign.certify("client")

    def clients(self) -> dict[str, ClientSecurity]:
        own, foreign = self.client, self.foreign
        return {
            "plain": OPEN,
            "TLS": ClientSecurity(tls=TlsSettings(trust_store=TrustStoreFile(path=own.truststore))),
            "with a certificate": ClientSecurity(tls=_mutual(own, own)),
            "with a foreign certificate": ClientSecurity(tls=_mutual(foreign, own)),
            "foreign CA": ClientSecurity(tls=TlsSettings(trust_store=TrustStoreFile(path=foreign.truststore))),
            "no CA": ClientSecurity(tls=TlsSettings()),
        }


def _mutual(shown: Stores, trusted: Stores) -> TlsSettings:
    return TlsSettings(key_store=KeyStoreFile(path=shown.keystore), trust_store=TrustStoreFile(path=trusted.truststore))


def _of_listener(stores: Stores, auth: ClientAuth = ClientAuth.NONE) -> TlsSettings:
    return TlsSettings(
        key_store=KeyStoreFile(path=stores.keystore),
        trust_store=TrustStoreFile(path=stores.truststore),
        client_auth=auth,
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


# --- listeners -----------------------------------------------------------------------------------------------------


async def _answer(_: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(cluster_id="", controller_id=1, brokers=(), topics=())


@asynccontextmanager
async def grpc_listener(settings: TlsSettings | None) -> AsyncIterator[str]:
    server = grpc.aio.server()
    Service(METADATA.served_by(_answer)).add_to(server)
    if settings is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", server_credentials(settings))
    await server.start()
    try:
        yield f"localhost:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def tcp_listener(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object], settings: TlsSettings | None = None
) -> AsyncIterator[str]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered = serve(reader, writer)
        if asyncio.iscoroutine(answered):
            await answered
        writer.close()

    tls = None if settings is None else server_context(settings).context
    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def kafka(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one ApiVersions; end the connection for what is none, as listeners of Kafka's protocol do."""
    size = int.from_bytes(await reader.read(4), "big")
    if 0 < size < 1_000:
        header, _ = decode_request_header(memoryview(await reader.readexactly(size)), 10)
        response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=())
        writer.write(b"".join(encode_response(response, header.api_version, header.correlation_id)))


def nothing(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Close at once, as a node that stops."""


# --- pairs ---------------------------------------------------------------------------------------------------------


async def failure(address: str, security: ClientSecurity) -> Exception | None:
    """The error of one call of a client; None if it is answered."""
    connections = Network().connect(AdminSettings(bootstrap_servers=(address,), security=security))
    try:
        await connections.peer(address).call(METADATA, metadata_of(()), 5)
    except (Refusal, Unreachable) as error:
        return error
    finally:
        await connections.close()
    return None


@pytest.mark.parametrize(
    ("listener", "client", "words"),
    [
        ("gRPC", "plain", None),
        ("gRPC", "TLS", NO_TLS),
        ("gRPC with TLS", "TLS", None),
        ("gRPC with TLS", "plain", HAS_TLS),
        ("gRPC with TLS", "foreign CA", "its certificate is not trusted by ssl.truststore.location"),
        ("gRPC with TLS", "no CA", "no authority of this system has signed its certificate: set ssl.trust"),
        ("gRPC of another host", "TLS", "its certificate is not for this host name: connect by a name"),
        ("gRPC with mutual TLS", "with a certificate", None),
        ("gRPC with mutual TLS", "plain", HAS_TLS),
        ("gRPC with mutual TLS", "TLS", "it requires a certificate of its clients: set ssl.keystore.location"),
        ("Kafka's", "plain", OTHER_PROTOCOL),
        ("Kafka's", "TLS", OTHER_PROTOCOL),
        ("Kafka's with TLS", "plain", OTHER_PROTOCOL),
        ("Kafka's with TLS", "TLS", OTHER_PROTOCOL),
        ("Kafka's with mutual TLS", "TLS", OTHER_PROTOCOL),
    ],
)
async def test_a_client_that_does_not_fit_is_told_so_at_once(
    world: World, listener: str, client: str, words: str | None
) -> None:
    mutual = _of_listener(world.node, ClientAuth.REQUIRED)
    opened = {
        "gRPC": grpc_listener(None),
        "gRPC with TLS": grpc_listener(_of_listener(world.node)),
        "gRPC of another host": grpc_listener(_of_listener(world.elsewhere)),
        "gRPC with mutual TLS": grpc_listener(mutual),
        "Kafka's": tcp_listener(kafka),
        "Kafka's with TLS": tcp_listener(kafka, _of_listener(world.node)),
        "Kafka's with mutual TLS": tcp_listener(kafka, mutual),
    }[listener]
    async with opened as address:
        began_s = time.monotonic()
        error = await failure(address, world.clients()[client])
        assert time.monotonic() - began_s < 10
    if words is None:
        assert error is None
        return
    assert isinstance(error, AuthenticationFailed)
    assert str(error).startswith(f"{address}: ")
    assert words in str(error)
    assert not error.error_code.retriable


async def test_a_certificate_that_may_not_be_accepted_is_named_and_the_call_goes_on(world: World) -> None:
    async with grpc_listener(_of_listener(world.node, ClientAuth.REQUIRED)) as address:
        error = await failure(address, world.clients()["with a foreign certificate"])
    assert isinstance(error, Unreachable)
    assert "it may not accept the certificate of ssl.keystore.location" in str(error)


@pytest.mark.parametrize("client", ["plain", "TLS"])
async def test_a_node_that_closes_connections_may_be_stopping_so_the_call_goes_on(world: World, client: str) -> None:
    async with tcp_listener(nothing) as address:
        error = await failure(address, world.clients()[client])
    assert isinstance(error, NotGrpc)


# --- looks ---------------------------------------------------------------------------------------------------------


async def test_nothing_is_seen_of_a_listener_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_look, "LOOK_S_MAX", 0.1)
    async with tcp_listener(lambda *_: asyncio.sleep(5)) as address:
        assert await look(address) is None
    assert await look(address) is None, "nobody listens"
    assert await look("no-port") is None


@pytest.mark.parametrize("said", [b"", b"\x16", b"HTTP/1.1 400 \r\n\r\n", b"\x00\x00\x12\x04", b"\xff" * 100])
async def test_whatever_a_listener_says_a_look_ends(said: bytes) -> None:
    async with tcp_listener(lambda _, writer: writer.write(said)) as address:
        seen = await look(address)
    assert seen is None or not seen.has_tls


async def test_an_address_is_looked_at_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    async def seen(address: str) -> Looked | None:
        looks.append(address)
        return None

    monkeypatch.setattr("kraft.client.cluster.misfits.look", seen)
    misfits = Misfits(OPEN)
    for address in ("a:1", "a:1", "b:1", "a:1"):
        error = NotGrpc(address, "closed")
        assert await misfits.explain(address, error) is error
    assert looks == ["a:1", "b:1"]


def test_the_first_messages_of_tls_are_read_as_far_as_they_go() -> None:
    hello, request, done = (bytes([kind, 0, 0, 2, 1, 1]) for kind in (2, 13, 14))

    def records(*fragments: bytes) -> bytes:
        return b"".join(b"\x16\x03\x03" + len(each).to_bytes(2, "big") + each for each in fragments)

    asking = hello + request + done
    assert handshake_messages(records(asking)) == {2, 13, 14}
    assert handshake_messages(records(asking[:7], asking[7:])) == {2, 13, 14}
    alert = b"\x15\x03\x03\x00\x02\x02\x28"
    assert handshake_messages(records(hello) + alert + records(request)) == {2}
    assert is_tls(records(hello))
    assert is_tls(alert)
    for length in range(len(records(asking))):
        assert handshake_messages(records(asking)[:length]) <= {2, 13, 14}


@pytest.mark.parametrize("said", [5, 60])
async def test_a_handshake_that_ends_early_does_not_tell_the_protocol(world: World, said: int) -> None:
    """As where the node stops in this moment."""
    whole = await _first_flight(world)

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # What is not read when a connection is closed resets it.
        await reader.read(64 * 1024)
        writer.write(whole[:said])

    async with tcp_listener(begin) as address:
        assert await look(address) == Looked(has_tls=True)


async def _first_flight(world: World) -> bytes:
    """Return what a listener with TLS says first."""
    async with grpc_listener(_of_listener(world.node)) as address:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        hello = ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(hello.read())
        flight = await reader.read(64 * 1024)
        writer.close()
    return flight


# --- words ---------------------------------------------------------------------------------------------------------


def test_what_is_not_certain_is_no_objection() -> None:
    with_tls = ClientSecurity(tls=TlsSettings())
    assert objection(Looked(has_tls=True), with_tls) is None
    assert objection(Looked(has_tls=True, speaks_grpc=True), with_tls) is None
    assert objection(Looked(has_tls=False), OPEN) is None


PASSWORD: Final = PasswordLogin(mechanism=SaslMechanism.PLAIN, user="alice", password=Password("secret"))


async def explained(security: ClientSecurity, code: ErrorCode, message: str) -> str:
    error = await Misfits(security).explain("broker-1:9094", Refusal(code, message))
    assert isinstance(error, AuthenticationFailed)
    assert error.error_code is code
    return str(error)


async def test_a_refused_password_names_address_user_and_remedy() -> None:
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    text = await explained(ClientSecurity(sasl=PASSWORD), code, "invalid credentials")
    assert text == (
        "SASL_AUTHENTICATION_FAILED: broker-1:9094 refused user 'alice': invalid credentials: check user and password "
        "in sasl.jaas.config, or sasl.username and sasl.password; an administrator whose login works sets another one "
        "with kraft users set-password alice; if none does, SECURITY.md says what to do"
    )
    assert "secret" not in text


async def test_a_refused_token_names_the_address_and_where_the_reason_is() -> None:
    security = ClientSecurity(sasl=TokenSource(file=Path("token")))
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    text = await explained(security, code, "invalid_token")
    assert text.startswith("SASL_AUTHENTICATION_FAILED: broker-1:9094 refused the token: invalid_token: it may have")
    missing = "no credentials: there is no token in TokenSource(file=token)"
    assert await explained(security, code, missing) == f"SASL_AUTHENTICATION_FAILED: broker-1:9094: {missing}"


async def test_a_mechanism_that_is_not_enabled_names_the_setting() -> None:
    text = await explained(
        ClientSecurity(sasl=PASSWORD),
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "Unsupported SASL mechanism PLAIN, enabled mechanisms are SCRAM-SHA-512",
    )
    assert text == (
        "UNSUPPORTED_SASL_MECHANISM: broker-1:9094: Unsupported SASL mechanism PLAIN, enabled mechanisms are "
        "SCRAM-SHA-512: set sasl.mechanism to one of them"
    )


async def test_other_errors_of_a_login_name_the_address_once() -> None:
    for message in ("it requires a login", "broker-1:9094: it requires a login"):
        text = await explained(OPEN, ErrorCode.ILLEGAL_SASL_STATE, message)
        assert text == "ILLEGAL_SASL_STATE: broker-1:9094: it requires a login"
    other = Refusal(ErrorCode.NOT_CONTROLLER, "no controller is active")
    assert await Misfits(OPEN).explain("broker-1:9094", other) is other
