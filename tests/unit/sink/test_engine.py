"""The connection to a search engine: logins, refusals, and answers that are none, are late, or never end.

A fake answers. What it says for OpenSearch was taken from OpenSearch 2.19.6, which the end-to-end test of the pipeline
runs; nginx, load balancers and old nodes are what stands before or beside one.
"""

from __future__ import annotations

import base64
import gzip
import ssl
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from msgspec import structs

from kraft.local.free_ports import ReservedPorts
from kraft.sink.config import EngineConfig, sink_config
from kraft.sink.documents import Document, Record
from kraft.sink.engine import Engine, EngineAway, LoginRefused, NoEngine, Overloaded, RequestRefused
from tests.support.certificates import Authority
from tests.support.search_engine.fake_engine import (
    REFUSED_UNREAD,
    Answer,
    FakeEngine,
    answered,
    dripping,
    endless,
    hung_up,
    items,
)

TIMEOUT_S: Final = 0.3
OPENSEARCH_429: Final = {
    "error": {"type": "circuit_breaking_exception", "reason": "[in_flight_requests] Data too large"},
    "status": 429,
}
OPENSEARCH_400: Final = {
    "error": {"type": "illegal_argument_exception", "reason": "The bulk request must be terminated by a newline [\\n]"},
    "status": 400,
}


def config(*urls: str, **settings: str) -> EngineConfig:
    """Return the settings of a sink's file with these of connection.*."""
    given = {f"connection.{name.replace('_', '.')}": value for name, value in settings.items()}
    return sink_config(
        {
            "bootstrap.servers": "localhost:9094",
            "topics": "logs",
            "group.id": "sink",
            "index": "logs",
            "errors.deadletterqueue.topic.name": "dead-letters",
            "connection.url": ",".join(urls),
            **given,
        }
    ).engine


def documents(count: int = 1, source: bytes = b"{}") -> list[Document]:
    lines = b'{"create":{"_index":"logs"}}\n%b\n' % source
    return [Document(Record("logs", 0, each, 0, None, source, ()), lines) for each in range(count)]


def refusal(*answers: Answer, timeout_s: float = 10.0) -> EngineAway | RequestRefused:
    """Return what a request of two documents comes to."""
    with FakeEngine(*answers) as fake:
        engine = Engine(structs.replace(config(fake.url), timeout_s=timeout_s))
        with pytest.raises((EngineAway, RequestRefused)) as raised:
            engine.bulk(documents(2))
        engine.close()
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, EngineAway | RequestRefused)
    return raised.value


# --- requests --------------------------------------------------------------------------------------------------------


def test_documents_are_sent_over_one_connection_and_each_is_judged() -> None:
    with FakeEngine(items(201, 409), items(201)) as fake:
        engine = Engine(config(f"{fake.url}/search/"))
        found, sent_bytes = engine.bulk(documents(2))
        assert [each.status for each in found] == [201, 409]
        engine.bulk(documents(1))
        engine.close()
    first, second = fake.asked
    assert first.line.startswith("POST /search/_bulk?filter_path=errors,items.*.status,")
    assert first.headers["content-type"] == "application/x-ndjson"
    assert len(first.body) == sent_bytes
    assert (first.connection, second.connection) == (1, 1)


def test_a_body_of_many_parts_arrives_whole_and_compressed_where_asked() -> None:
    sent = documents(3, b'{"message":"%b"}' % (b"x" * 200_000))
    whole = b"".join(each.lines for each in sent)
    with FakeEngine(items(201, 201, 201)) as fake:
        for compression in ("none", "gzip"):
            engine = Engine(config(fake.url, compression=compression))
            engine.bulk(sent)
            engine.close()
    plain, compressed = fake.asked
    assert plain.body == whole
    assert compressed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(compressed.body) == whole


def test_the_login_is_a_user_with_a_password_or_a_key() -> None:
    with FakeEngine(items(201)) as fake:
        for login in ({"username": "me", "password": "pä:ss"}, {"api_key": "a2V5"}, {}):
            engine = Engine(config(fake.url, **login))
            engine.bulk(documents())
            engine.close()
    pair = base64.b64encode("me:pä:ss".encode()).decode()
    assert [each.headers.get("authorization") for each in fake.asked] == [f"Basic {pair}", "ApiKey a2V5", None]


def test_a_login_that_is_refused_is_told_apart() -> None:
    # OpenSearch without its security plugin never says it; with it, the body is the one word.
    assert isinstance(refusal(answered(401, b"Unauthorized")), LoginRefused)
    assert isinstance(refusal(answered(403, b"Forbidden")), LoginRefused)


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[FakeEngine]:
    """An engine that wants a certificate of the same authority."""
    stores = authority.certify("engine")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.keystore)
    context.load_verify_locations(stores.truststore)
    context.verify_mode = ssl.CERT_REQUIRED
    with FakeEngine(items(201), context=context) as fake:
        yield fake


def trusting(certificate: Path, **settings: str) -> dict[str, str]:
    return {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(certificate), **settings}


def test_an_engine_of_an_own_authority_takes_the_certificate_of_the_sink(
    secured: FakeEngine, authority: Authority
) -> None:
    own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(authority.certify("sink").keystore)}
    engine = Engine(config(secured.url, **trusting(authority.certificate, **own)))
    found, _ = engine.bulk(documents())
    engine.close()
    assert [each.status for each in found] == [201]


def test_who_shows_no_certificate_or_trusts_another_authority_gets_one_line(
    secured: FakeEngine, authority: Authority, tmp_path: Path
) -> None:
    before = len(secured.asked)
    for given in ({}, trusting(Authority(tmp_path, "other").certificate), trusting(authority.certificate)):
        engine = Engine(config(secured.url, **given))
        with pytest.raises(EngineAway, match=r"127\.0\.0\.1:\d+: .*certificate") as raised:
            engine.bulk(documents())
        assert "\n" not in str(raised.value)
        engine.close()
    assert len(secured.asked) == before


def test_a_connection_that_ends_in_tls_without_a_word_may_have_needed_a_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a server that needs one, whose alert is lost if the request meets the end of the connection first."""

    def ended(*_: object) -> NoReturn:
        raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol")

    monkeypatch.setattr(Engine, "_answer", ended)
    with pytest.raises(EngineAway, match=r"engine:9200: EOF occurred .*: it may need a client certificate"):
        Engine(config("https://engine:9200")).bulk(documents())


# --- refusals --------------------------------------------------------------------------------------------------------


def test_what_is_too_large_is_refused_also_by_one_that_does_not_read_it() -> None:
    # OpenSearch answers 413 without a body, for more than http.max_content_length.
    assert isinstance(refusal(answered(413)), RequestRefused)
    with FakeEngine(REFUSED_UNREAD, items(201)) as fake:
        engine = Engine(config(fake.url))
        with pytest.raises(RequestRefused, match="status 413"):
            engine.bulk(documents(1, b"x" * (8 << 20)))
        engine.bulk(documents())
        engine.close()


def test_a_request_is_refused_by_the_engine_alone_and_not_by_a_proxy() -> None:
    assert isinstance(refusal(answered(400, OPENSEARCH_400)), RequestRefused)
    page = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>"
    assert isinstance(refusal(answered(400, page)), NoEngine)


def test_an_overloaded_engine_is_told_apart_with_the_time_that_it_asks_for() -> None:
    found = refusal(answered(429, OPENSEARCH_429))
    assert isinstance(found, Overloaded)
    assert found.retry_after_s == 0
    # OpenSearch sends no Retry-After; services before it do.
    for text, expected in (("7", 7), ("Wed, 21 Oct 2026 07:28:00 GMT", 0), ("-1", 0), ("9" * 30, 0), ("", 0)):
        found = refusal(answered(429, b"", f"Retry-After: {text}"))
        assert isinstance(found, Overloaded)
        assert found.retry_after_s == expected


@pytest.mark.parametrize("status", [404, 406, 500, 502, 503, 504])
def test_other_errors_are_those_of_an_engine_that_is_away(status: int) -> None:
    found = refusal(answered(status, b"line one\nline \x1b[31mtwo" + b"x" * 10_000))
    assert type(found) is EngineAway
    assert f"status {status}" in str(found)
    assert "\x1b" not in str(found)


def test_a_redirect_is_not_followed_and_the_login_goes_nowhere_else() -> None:
    with (
        FakeEngine(items(201)) as elsewhere,
        FakeEngine(answered(307, b"", f"Location: {elsewhere.url}/_bulk")) as fake,
    ):
        engine = Engine(config(fake.url, username="me", password="secret"))
        with pytest.raises(NoEngine, match="status 307: not followed to"):
            engine.bulk(documents())
        engine.close()
        assert elsewhere.connections == 0


# --- answers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b'{"errors":', b'{"errors":1,"items":[]}', b'{"errors":false,"items":{}}', b"\xff" * 50],
)
def test_an_answer_that_is_not_of_the_bulk_api_is_said_so(body: bytes) -> None:
    assert isinstance(refusal(answered(200, body)), NoEngine)


@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_about_fewer_or_more_documents_is_none(count: int) -> None:
    assert f"{count} items for 2 documents" in str(refusal(items(*[201] * count)))


@pytest.mark.parametrize(
    "answer",
    [
        hung_up,
        b"SSH-2.0-OpenSSH\r\n" + b"Connection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n" + b'{"errors":false,"items":[]}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"Connection: close\r\n\r\n",
    ],
    ids=["hung up", "no HTTP", "broken off", "bad chunk", "many headers"],
)
def test_what_is_no_whole_answer_is_an_engine_that_is_away(answer: Answer) -> None:
    assert type(refusal(answer)) is EngineAway


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"],
    ids=["from the first byte", "in a header", "in the body"],
)
def test_an_answer_that_drips_ends_with_the_timeout(head: bytes) -> None:
    began_s = time.monotonic()
    assert "no answer in time" in str(refusal(dripping(head, TIMEOUT_S / 10), timeout_s=TIMEOUT_S))
    assert time.monotonic() - began_s < 9, "it drips for 10 s"


def test_an_answer_of_a_gigabyte_is_not_read_to_its_end() -> None:
    tracemalloc.start()
    try:
        assert "longer than 64 MiB" in str(refusal(endless(b"x" * (1 << 20), 1_024), timeout_s=60))
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()


# --- nodes and connections -------------------------------------------------------------------------------------------


def test_the_next_node_is_asked_when_one_is_away_and_stays_the_one() -> None:
    with ReservedPorts(1) as ports, FakeEngine(items(201)) as fake:
        engine = Engine(config(f"http://127.0.0.1:{ports[0]}", fake.url))
        with pytest.raises(EngineAway, match="Connection refused"):
            engine.bulk(documents())
        engine.bulk(documents())
        engine.bulk(documents())
        engine.close()
        assert fake.connections == 1


@pytest.mark.parametrize("bad", [answered(200, b"<html>"), answered(400, b"<html>"), answered(503)])
def test_the_next_node_is_asked_after_what_is_no_engine(bad: bytes) -> None:
    with FakeEngine(bad) as other, FakeEngine(items(201)) as fake:
        engine = Engine(config(other.url, fake.url))
        with pytest.raises(EngineAway):
            engine.bulk(documents())
        engine.bulk(documents())
        engine.close()


def test_a_connection_that_was_closed_meanwhile_is_dialled_anew_without_a_failure() -> None:
    def close_after(connected: Any) -> None:
        connected.sendall(items(201))

    with FakeEngine(close_after, items(201)) as fake:
        engine = Engine(config(fake.url))
        engine.bulk(documents())
        engine.bulk(documents())
        engine.close()
        assert fake.connections == 2


def test_a_request_under_way_is_ended_by_an_interrupt() -> None:
    is_asked, ended = threading.Event(), threading.Event()

    def silent(_: Any) -> None:
        is_asked.set()
        ended.wait(10)

    with FakeEngine(silent) as fake:
        engine = Engine(config(fake.url))
        raised: list[EngineAway] = []

        def ask() -> None:
            try:
                engine.bulk(documents())
            except EngineAway as error:
                raised.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert is_asked.wait(10)
        engine.interrupt()
        asking.join(5)
        ended.set()
        assert not asking.is_alive()
        assert len(raised) == 1
        with pytest.raises(EngineAway, match="ends"):
            engine.check()
