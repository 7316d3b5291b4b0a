"""Clients of a listener until their handshakes are complete, on TCP connections in memory."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from kraft.tls import handshakes
from kraft.tls.handshakes import (
    BEGUN_MAX,
    BEGUN_S_MAX_WHEN_CROWDED,
    DEADLINE_S,
    ClientRefused,
    ServerHandshake,
    TlsPeer,
)
from kraft.tls.stores import ClientAuth
from kraft.tls.transport import TlsTransport
from tests.support.certificates import Authority, Stores
from tests.support.tls_wire import (
    Client,
    Listener,
    Received,
    TcpTransport,
    arrive,
    client_context,
    connected,
    context,
    stores,
    turns,
)


def _with(shown: Stores) -> ssl.SSLContext:
    found = client_context()
    found.load_cert_chain(shown.keystore)
    return found


async def _shaken(listener: Listener, tls: ssl.SSLContext | None = None) -> Client:
    """Return a client whose handshake has gone as far as it can, whether it is open or refused."""
    tcp, _ = listener.accept()
    client = Client(tcp, tls)
    for _ in range(4):
        client.shake()
        await turns()
    return client


async def test_data_behind_the_last_record_of_a_handshake_is_not_lost() -> None:
    listener = Listener()
    tcp, served = listener.accept()
    client = Client(tcp)
    client.shake()
    await turns()
    client._take()
    client.ssl.do_handshake()
    arrive(tcp, client.outgoing.read() + client.write(b"request"))
    await turns()
    assert served.data == b"request"
    assert len(listener.handshakes) == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_versions_before_1_2_are_refused(version: ssl.TLSVersion) -> None:
    listener, tls = Listener(), client_context()
    tls.set_ciphers("ALL:@SECLEVEL=0")
    tls.minimum_version = tls.maximum_version = version
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        await _shaken(listener, tls)
    assert "no version of TLS that this listener has" in listener.reasons[0]


async def test_a_client_that_must_show_a_certificate_is_known_by_it() -> None:
    seen: list[TlsPeer] = []
    listener = Listener(ClientAuth.REQUIRED)

    def accept(peer: TlsPeer) -> Received:
        seen.append(peer)
        return Received()

    handshake = ServerHandshake(listener.handshakes, lambda: context(ClientAuth.REQUIRED), accept)
    tcp = TcpTransport(handshake)
    handshake.connection_made(tcp)
    client = Client(tcp, _with(stores()))
    for _ in range(3):
        client.shake()
        await turns()
    own = ssl.PEM_cert_to_DER_cert(stores().keystore.read_text().partition("-----END PRIVATE KEY-----\n")[2])
    assert seen == [TlsPeer(own, own)]


@pytest.mark.parametrize("client_auth", [ClientAuth.NONE, ClientAuth.REQUESTED])
async def test_a_client_without_certificate_is_admitted_where_none_is_required(client_auth: ClientAuth) -> None:
    client, _ = await connected(Listener(client_auth))
    assert isinstance(client.tcp.protocol, TlsTransport)


async def test_a_client_without_certificate_is_refused_where_one_is_required() -> None:
    listener = Listener(ClientAuth.REQUIRED)
    client = await _shaken(listener)
    assert "ssl.client.auth=required" in listener.reasons[0]
    assert client.tcp.is_aborted


@pytest.mark.parametrize("client_auth", [ClientAuth.REQUESTED, ClientAuth.REQUIRED])
async def test_a_certificate_of_another_authority_is_refused(client_auth: ClientAuth, tmp_path: Path) -> None:
    listener = Listener(client_auth)
    client = await _shaken(listener, _with(Authority(tmp_path, "other").certify("mallory")))
    assert "its certificate is not accepted: unable to get local issuer" in listener.reasons[0]
    assert client.tcp.is_aborted


async def test_a_client_that_does_not_trust_the_listener_is_named_with_the_remedy() -> None:
    listener = Listener()
    tcp, _ = listener.accept()
    client = Client(tcp, ssl.create_default_context())
    client.ssl = ssl.create_default_context().wrap_bio(client.incoming, client.outgoing, server_hostname="localhost")
    client.shake()
    await turns()
    with pytest.raises(ssl.SSLCertVerificationError):
        client.shake()
    await turns()
    assert "it does not trust the certificate of this listener" in listener.reasons[0]


async def test_a_client_that_does_not_speak_tls_is_told_apart() -> None:
    listener = Listener()
    tcp, served = listener.accept()
    arrive(tcp, b"\0\0\0\x17\0\x12\0\x03")
    assert "security.protocol=SSL" in listener.reasons[0]
    assert tcp.is_aborted
    assert len(listener.handshakes) == 0
    assert not served.lost


async def test_a_client_refused_after_its_handshake_gets_no_connection() -> None:
    listener = Listener()

    def refuse(_: TlsPeer) -> Received:
        raise ClientRefused("no rule matches")

    handshake = ServerHandshake(listener.handshakes, context, refuse)
    tcp = TcpTransport(handshake)
    handshake.connection_made(tcp)
    client = Client(tcp)
    for _ in range(3):
        client.shake()
        await turns()
    assert listener.reasons == ["no rule matches"]
    assert tcp.is_aborted


async def test_too_many_connections_are_refused() -> None:
    listener = Listener(connections_max=1)
    listener.accept()
    tcp, _ = listener.accept()
    assert tcp.is_aborted
    assert "too many connections" in listener.reasons[0]
    await turns()
    assert len(listener.handshakes) == len(listener.open_names) == 1
    listener.handshakes.refuse_oldest("others took its place")
    assert listener.reasons[1:] == ["others took its place"]
    assert not listener.open_names


async def test_a_handshake_that_takes_too_long_is_ended() -> None:
    listener = Listener()
    silent, _ = listener.accept()
    dribbling, _ = listener.accept()
    client = Client(dribbling)
    client.shake()
    await asyncio.sleep(DEADLINE_S - 1)
    listener.handshakes.check()
    assert not silent.is_closing()
    await asyncio.sleep(1.5)
    listener.handshakes.check()
    assert silent.is_closing()
    assert dribbling.is_closing()
    assert listener.reasons == ["its TLS handshake was not complete after 10 s"] * 2
    await turns()
    assert len(listener.handshakes) == 0


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("HANDSHAKE_BYTES_MAX", "its TLS handshake takes more than 20 bytes"),
        ("RECORDS_MAX", "its TLS handshake takes more than 20 records"),
    ],
)
async def test_the_bytes_and_records_of_a_handshake_are_limited(
    monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    monkeypatch.setattr(handshakes, limit, 20)
    listener = Listener()
    tcp, _ = listener.accept()
    # A ClientHello that goes on and on, in records of a byte.
    arrive(tcp, b"\x16\x03\x01\x00\x04\x01\x00\xff\xff")
    for _ in range(30):
        await turns()
        arrive(tcp, b"\x16\x03\x01\x00\x01\x00")
    await turns()
    assert listener.reasons == [reason]
    assert tcp.is_aborted


async def test_a_flood_of_handshakes_is_carried_out_a_few_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "TURN_S", 0.0)
    listener = Listener()
    clients = [Client(listener.accept()[0]) for _ in range(5)]
    for client in clients:
        client.shake()
    answered = []
    for _ in clients:
        await asyncio.sleep(0)
        answered.append(sum(bool(client.tcp.written) for client in clients))
    assert answered == [1, 2, 3, 4, 5]
    # Who has begun comes before who has not.
    late = Client(listener.accept()[0])
    late.shake()
    clients[0].shake()
    await turns(1)
    assert isinstance(clients[0].tcp.protocol, TlsTransport)
    assert not late.tcp.written
    await turns(1)
    assert late.tcp.written


async def test_an_address_with_many_handshakes_delays_those_of_others_by_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshakes, "TURN_S", 0.0)
    listener = Listener()
    flood = [Client(listener.accept(address="10.0.0.66")[0]) for _ in range(20)]
    for client in flood:
        client.shake()
    await turns(1)
    honest = Client(listener.accept(address="10.0.0.8")[0])
    honest.shake()
    await turns(2)
    assert honest.tcp.written
    # The same for those that have begun.
    for client in [*flood, honest]:
        client.shake()
    await turns(2)
    assert isinstance(honest.tcp.protocol, TlsTransport)
    assert sum(isinstance(client.tcp.protocol, TlsTransport) for client in flood) <= 2


async def test_handshakes_under_way_are_bounded_and_slow_ones_make_room() -> None:
    listener = Listener()
    slow = [Client(listener.accept()[0]) for _ in range(BEGUN_MAX)]
    for client in slow:
        client.shake()
    await turns(BEGUN_MAX)
    assert all(client.tcp.written for client in slow)
    waiting = Client(listener.accept()[0])
    waiting.shake()
    await turns(5)
    assert not waiting.tcp.written
    listener.handshakes.check()
    assert not listener.refusals
    await asyncio.sleep(BEGUN_S_MAX_WHEN_CROWDED + 0.1)
    listener.handshakes.check()
    await turns(5)
    assert waiting.tcp.written
    assert set(listener.reasons) == {"it did not go on with its TLS handshake while others waited"}


async def test_clients_that_close_half_way_leave_nothing_behind() -> None:
    listener = Listener()
    tcp, _ = listener.accept()
    tcp.protocol.eof_received()
    assert not listener.refusals
    begun, _ = listener.accept()
    client = Client(begun)
    client.shake()
    begun.protocol.eof_received()
    assert listener.reasons == ["it closed the connection during the TLS handshake"]
    await turns()
    assert len(listener.handshakes) == 0
    # Its turn came when it was gone.
    assert not begun.written
