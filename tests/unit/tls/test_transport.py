"""The end of a listener, on a TCP connection in memory."""

from __future__ import annotations

import ssl

import pytest

from kraft.tls.records import RECORD_BYTES_MAX
from kraft.tls.transport import (
    ANSWERS_BYTES_MAX,
    RECORDS_AT_ONCE_MAX,
    RECORDS_WITHOUT_DATA_MAX,
    SENT_AT_ONCE_BYTES,
    UNSENT_HIGH_BYTES,
)
from tests.support.tls_wire import Listener, Received, arrive, client_context, connected, turns

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


def _only(version: ssl.TLSVersion) -> ssl.SSLContext:
    found = client_context()
    found.minimum_version = found.maximum_version = version
    return found


@VERSIONS
async def test_what_a_client_writes_arrives_and_is_answered(version: ssl.TLSVersion) -> None:
    client, served = await connected(Listener(), tls=_only(version))
    arrive(client.tcp, client.write(b"request"))
    assert served.data == b"request"
    served.transport.write(b"answer")
    assert client.read() == b"answer"


async def test_bytes_may_arrive_one_at_a_time() -> None:
    client, served = await connected(Listener())
    for byte in client.write(b"first") + client.write(b"second"):
        arrive(client.tcp, bytes((byte,)))
    assert served.sizes == [5, 6]


async def test_records_that_arrive_together_are_received_together() -> None:
    client, served = await connected(Listener(), Received(1 << 20))
    data = bytes(range(256)) * 256
    arrive(client.tcp, client.write(data[:30_000]))
    assert served.sizes == [30_000]


async def test_a_record_larger_than_the_protocols_buffer_comes_in_parts() -> None:
    client, served = await connected(Listener(), Received(1_000))
    data = bytes(range(256)) * 40
    arrive(client.tcp, client.write(data))
    assert served.data == data
    assert max(served.sizes) == 1_000


async def test_the_connections_of_a_listener_share_their_buffers() -> None:
    listener = Listener()
    (one, first), (two, second) = await connected(listener), await connected(listener)
    begun, other = one.write(b"a record in two parts"), two.write(b"other")
    arrive(one.tcp, begun[:10])
    arrive(two.tcp, other)
    first.transport.write(b"to one")
    second.transport.write(b"to two")
    arrive(one.tcp, begun[10:])
    assert first.data == b"a record in two parts"
    assert second.data == b"other"
    assert (one.read(), two.read()) == (b"to one", b"to two")


async def test_a_protocol_that_pauses_gets_nothing_more_until_it_resumes() -> None:
    client, served = await connected(Listener(), Received(1_000))
    served.when_received = served.transport.pause_reading
    arrive(client.tcp, client.write(bytes(2_500)) + client.write(b"next"))
    assert served.sizes == [1_000]
    assert not client.tcp.is_reading()
    for expected in ([1_000] * 2, [1_000, 1_000, 504]):
        served.transport.resume_reading()
        await turns()
        assert served.sizes == expected
    served.transport.resume_reading()
    await turns()
    assert client.tcp.is_reading()
    assert served.data == bytes(2_500) + b"next"


async def test_what_a_paused_connection_keeps_is_bounded() -> None:
    client, served = await connected(Listener(), Received(100))
    # Large records let it receive more at once, and none of that may stay behind when it pauses.
    arrive(client.tcp, client.write(bytes(1 << 20)))
    served.when_received = served.transport.pause_reading
    arrive(client.tcp, client.write(bytes(1 << 20)))
    transport = client.tcp.protocol
    assert len(vars(transport)["_rest"]) <= 2 * RECORD_BYTES_MAX


async def test_many_tiny_records_are_decrypted_in_several_turns() -> None:
    client, served = await connected(Listener())
    count = RECORDS_AT_ONCE_MAX + 10
    arrive(client.tcp, b"".join(client.write(b"x") for _ in range(count)))
    assert len(served.data) == RECORDS_AT_ONCE_MAX
    assert not client.tcp.is_reading()
    await turns()
    assert len(served.data) == count
    assert client.tcp.is_reading()


async def test_records_without_data_end_the_connection() -> None:
    listener = Listener()
    client, served = await connected(listener)
    # Python's ssl sends no key updates; records that OpenSSL finds empty stand in for them.
    served.transport._session.read_into = lambda room: 0  # type: ignore[method-assign]
    arrive(client.tcp, client.write(b"x") * RECORDS_WITHOUT_DATA_MAX)
    assert not listener.refusals
    arrive(client.tcp, client.write(b"x"))
    await turns()
    assert "in a row hold no data" in listener.reasons[0]
    assert len(served.lost) == 1


async def test_a_changed_record_ends_the_connection_with_an_alert_and_one_line() -> None:
    listener = Listener()
    client, served = await connected(listener)
    record = bytearray(client.write(b"request"))
    record[-1] ^= 1
    arrive(client.tcp, bytes(record))
    await turns()
    assert not served.data
    assert len(served.lost) == 1
    assert client.tcp.is_aborted
    assert [reason[:10] for reason in listener.reasons] == ["TLS failed"]
    with pytest.raises(ssl.SSLError, match="ALERT"):
        client.read()


async def test_garbage_after_the_handshake_leaves_other_connections_as_they_are() -> None:
    listener = Listener()
    (bad, _), (good, served) = await connected(listener), await connected(listener)
    arrive(bad.tcp, b"\x17\x03\x03\x00\x40" + bytes(64))
    arrive(good.tcp, good.write(b"request"))
    assert served.data == b"request"
    assert len(listener.refusals) == 1


async def test_a_close_notify_is_the_end_of_what_is_received() -> None:
    client, served = await connected(Listener())
    data = client.write(b"last")
    with pytest.raises(ssl.SSLError):
        client.ssl.unwrap()
    arrive(client.tcp, data + client.outgoing.read())
    await turns()
    assert served.data == b"last"
    assert served.has_eof
    assert served.lost == [None]


async def test_a_client_that_closes_without_close_notify_ends_the_connection() -> None:
    client, served = await connected(Listener())
    client.tcp.protocol.eof_received()
    await turns()
    assert served.has_eof
    assert served.lost == [None]


async def test_what_was_written_before_close_is_sent_before_the_close_notify() -> None:
    client, served = await connected(Listener())
    client.tcp.room = 10_000
    served.transport.write(bytes(500_000))
    served.transport.close()
    assert not client.tcp.is_ended
    while not client.tcp.is_lost:
        client.tcp.make_room(50_000)
        await turns()
    assert len(client.read()) == 500_000
    assert client.has_end


async def test_a_closed_half_still_reads_to_the_clients_end() -> None:
    client, served = await connected(Listener())
    served.transport.write(b"answer")
    served.transport.write_eof()
    assert client.tcp.has_eof
    assert client.read() == b"answer"
    assert client.has_end
    arrive(client.tcp, client.write(b"too late"))
    assert not served.data
    client.tcp.protocol.eof_received()
    await turns()
    assert served.lost == [None]


async def test_a_client_that_does_not_read_makes_the_protocol_pause() -> None:
    client, served = await connected(Listener())
    client.tcp.room = 0
    served.transport.write(bytes(UNSENT_HIGH_BYTES // 2))
    assert served.may_write()
    served.transport.writelines([bytes(UNSENT_HIGH_BYTES), bytes(1 << 20)])
    assert not served.may_write()
    size = served.transport.get_write_buffer_size()
    assert size >= (1 << 20) + UNSENT_HIGH_BYTES
    # What the socket does not take is not encrypted.
    assert len(client.tcp.unsent) < 4 * UNSENT_HIGH_BYTES
    client.tcp.make_room(1 << 30)
    await turns()
    assert served.may_write()
    assert len(client.read()) == (1 << 20) + 3 * UNSENT_HIGH_BYTES // 2


async def test_a_long_response_is_encrypted_in_several_turns() -> None:
    client, served = await connected(Listener())
    served.transport.write(bytes(3 * SENT_AT_ONCE_BYTES))
    assert SENT_AT_ONCE_BYTES <= len(client.tcp.written) < 2 * SENT_AT_ONCE_BYTES
    await turns(5)
    assert len(client.read()) == 3 * SENT_AT_ONCE_BYTES


async def test_small_pieces_share_a_record() -> None:
    client, served = await connected(Listener())
    client.tcp.written.clear()
    served.transport.writelines([b"x" * 100] * 50)
    assert len(client.tcp.written) < 50 * 100 + 50


async def test_abort_drops_what_was_not_sent() -> None:
    client, served = await connected(Listener())
    client.tcp.room = 0
    served.transport.write(bytes(1 << 20))
    served.transport.abort()
    await turns()
    assert served.lost == [None]
    assert served.transport.get_write_buffer_size() <= len(client.tcp.unsent)


async def test_the_connection_passes_to_another_protocol() -> None:
    client, served = await connected(Listener())
    other = Received()

    def hand_over() -> None:
        served.transport.set_protocol(other)
        other.connection_made(served.transport)

    served.when_received = hand_over
    arrive(client.tcp, client.write(b"hello"))
    arrive(client.tcp, client.write(b"frame"))
    assert served.data == b"hello"
    assert other.data == b"frame"


async def test_answers_to_key_updates_are_limited_while_the_client_does_not_read() -> None:
    listener = Listener()
    client, served = await connected(listener)
    client.tcp.room = 0
    served.transport.write(b"x" * 100)
    transport = served.transport
    # Python's ssl sends no key updates; what OpenSSL would answer stands in for it.
    answers = iter([b"a" * ANSWERS_BYTES_MAX, b"b", b""])
    transport._session.outgoing = lambda: next(answers, b"")  # type: ignore[method-assign]
    transport._answer()
    assert not listener.refusals
    transport._answer()
    await turns()
    assert listener.reasons == ["it sends key updates, and does not read the answers"]
    assert len(served.lost) == 1
