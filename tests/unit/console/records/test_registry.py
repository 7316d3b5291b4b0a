"""Schemas of a registry over real HTTP: what is asked for, how often, and what a page says when it cannot be."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraft.console.records.decoding import decode
from kraft.console.records.decoding.limits import CannotDecode
from kraft.console.records.decoding.registry import ANSWER_S, ASKED_MAX, FAILED_S, Registry, RegistryConfig
from kraft.console.records.permissions import Mask, Permission, Viewing
from kraft.console.records.viewing import HIDDEN, shown_value
from kraft.fetching.bounded_http import HttpFailed, HttpRequest, fetch
from kraft.model.password import Password
from kraft.tls.stores import TlsSettings, TrustStoreFile
from tests.support.certificates import Authority
from tests.support.protobuf_orders import Order, order_file
from tests.support.schema_registry import SchemaRegistry, schema_registry

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "email", "type": "string"}]})


def framed(schema_id: int, value: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + value


@pytest.fixture(name="served")
def _served() -> Iterator[SchemaRegistry]:
    with schema_registry() as served:
        yield served


def registry_of(served: SchemaRegistry, user: str = "", password: str = "") -> Registry:
    return Registry(RegistryConfig(url=served.url, user=user, password=Password(password)))


def test_avro_is_read_by_the_schema_that_the_record_names(served: SchemaRegistry) -> None:
    served.add(7, USER)
    registry = registry_of(served)
    for _ in range(3):
        found = decode(framed(7, b"\x06a@b"), "", registry)
        assert (found.format, found.value, found.problem) == ("avro", {"email": "a@b"}, "")
    assert served.asked == ["/schemas/ids/7"]


def test_many_who_need_a_schema_at_once_ask_for_it_once(served: SchemaRegistry) -> None:
    served.add(7, USER)
    registry = registry_of(served)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: decode(framed(7, b"\x06a@b"), "", registry).value, range(50)))
    assert found == [{"email": "a@b"}] * 50
    assert len(served.asked) == 1


def test_avro_uses_types_of_other_subjects(served: SchemaRegistry) -> None:
    served.add(1, USER, subject="users/all")
    group = {"type": "record", "name": "Group", "fields": [{"name": "owner", "type": "User"}]}
    served.add(2, json.dumps(group), references=[{"name": "User", "subject": "users/all", "version": 1}])
    assert decode(framed(2, b"\x02x"), "avro", registry_of(served)).value == {"owner": {"email": "x"}}


def test_protobuf_is_read_by_what_the_registry_compiled(served: SchemaRegistry) -> None:
    served.add(9, 'syntax = "proto3"; ...', "PROTOBUF", compiled=order_file().SerializeToString())
    data = framed(9, b"\0" + Order(id=7, note="x").SerializeToString() + b"\xf8\x01\x01")
    found = decode(data, "", registry_of(served))
    assert (found.format, found.value["id"], found.value["note"]) == ("protobuf", 7, "x")
    assert found.problem == "1 field that the schema does not have: not shown"
    assert served.asked == ["/schemas/ids/9", "/schemas/ids/9?format=serialized"]


def test_a_registry_that_compiles_nothing_is_not_supported(served: SchemaRegistry) -> None:
    served.add(9, 'syntax = "proto3"; message A {}', "PROTOBUF")
    assert "format=serialized" in decode(framed(9, b"\0"), "", registry_of(served)).problem


def test_json_with_a_schema_is_json(served: SchemaRegistry) -> None:
    served.add(3, "{}", "JSON")
    assert decode(framed(3, b'{"a": 1}'), "", registry_of(served)).value == {"a": 1}
    assert "the value is none" in decode(framed(3, b"{"), "", registry_of(served)).problem


def test_what_cannot_be_decoded_is_shown_in_hexadecimal_with_a_sentence(served: SchemaRegistry) -> None:
    served.add(7, USER)
    served.add(8, "", "THRIFT")
    registry = registry_of(served)
    assert decode(framed(5, b""), "", registry).problem == (
        "the schema registry has no answer to /schemas/ids/5: Schema not found (404)"
    )
    assert "is of type THRIFT" in decode(framed(8, b""), "", registry).problem
    broken = decode(framed(7, b"\x7f"), "", registry)
    assert (broken.format, broken.text, broken.problem) == (
        "hex",
        "00 00 00 00 07 7f",
        "the bytes end before the value does",
    )
    assert "its schema is of Avro" in decode(framed(7, b"\x02x"), "protobuf", registry).problem
    assert "does not begin with the id" in decode(b"x", "avro", registry).problem


def test_a_schema_that_is_not_there_is_not_asked_for_again_at_once(served: SchemaRegistry) -> None:
    now_s = [0.0]
    registry = Registry(RegistryConfig(url=served.url), lambda: now_s[0])
    for _ in range(3):
        with pytest.raises(CannotDecode):
            registry.schema(5)
    assert len(served.asked) == 1
    now_s[0] += FAILED_S
    served.add(5, USER)
    registry.schema(5)


def test_records_that_name_a_thousand_schemas_do_not_flood_the_registry(served: SchemaRegistry) -> None:
    registry = registry_of(served)
    problems = [decode(framed(number, b""), "", registry).problem for number in range(1_000)]
    assert len(served.asked) == ASKED_MAX
    assert "too many schemas" in problems[-1]


def test_references_are_bounded_and_a_circle_ends(served: SchemaRegistry) -> None:
    served.add(1, USER, subject="a", references=[{"name": "User", "subject": "a", "version": 1}])
    registry_of(served).schema(1)
    for number in range(50):
        served.add(
            100 + number,
            USER.replace("User", f"U{number}"),
            subject=f"s{number}",
            references=[{"name": f"U{number + 1}", "subject": f"s{number + 1}", "version": 1}],
        )
    with pytest.raises(CannotDecode, match="more than 32 others"):
        registry_of(served).schema(100)


def test_the_console_logs_in_where_the_file_says_so(served: SchemaRegistry) -> None:
    served.user_info = "console:secret"
    served.add(7, USER)
    registry_of(served, "console", "secret").schema(7)
    with pytest.raises(CannotDecode, match="refuses the console's login") as error:
        registry_of(served, "console", "wrong").schema(7)
    assert "wrong" not in str(error.value)


def test_a_redirect_leads_nowhere(served: SchemaRegistry) -> None:
    with schema_registry() as elsewhere:
        served.redirect_to = f"{elsewhere.url}/schemas/ids/7"
        with pytest.raises(CannotDecode, match="leads elsewhere"):
            registry_of(served).schema(7)
        assert elsewhere.asked == []


def test_a_registry_that_is_away_is_asked_once_and_said_at_each_record() -> None:
    with socket.create_server(("localhost", 0)) as listening:
        port = listening.getsockname()[1]
    registry = Registry(RegistryConfig(url=f"http://localhost:{port}"))
    begun_s = time.monotonic()
    for number in range(500):
        found = decode(framed(number, b"x"), "", registry)
        assert found.problem == "the schema registry of this cluster cannot be asked: connection refused"
    assert time.monotonic() - begun_s < 20


def test_where_fields_are_hidden_a_value_without_its_schema_is_hidden(served: SchemaRegistry) -> None:
    served.add(7, USER)
    registry = registry_of(served)
    mask = Mask(name="m", topics=("*",), fields=(("email",),))
    permission = Permission(viewing=Viewing.ON, masks=(mask,))
    assert shown_value(framed(7, b"\x06a@b"), permission, "", registry).text == '{"email":"••••"}'
    assert shown_value(framed(8, b"\x06a@b"), permission, "", registry) == HIDDEN


def test_a_registry_by_https_is_believed_by_its_certificate(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "own"), Authority(tmp_path / "other", "other")
    stores = authority.certify("registry")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.keystore)

    def asked(store: Path) -> Registry:
        tls = TlsSettings(trust_store=TrustStoreFile(path=store))
        return Registry(RegistryConfig(url=served.url, tls=tls))

    with schema_registry(context) as served:
        served.add(7, USER)
        asked(authority.certificate).schema(7)
        with pytest.raises(CannotDecode, match="TLS fails"):
            asked(other.certificate).schema(7)
        with pytest.raises(CannotDecode, match="cannot be asked"):
            Registry(RegistryConfig(url=served.url.replace("https", "http"))).schema(7)
        stores.truststore.unlink()
        with pytest.raises(CannotDecode, match="cannot be asked"):
            asked(authority.certificate).schema(7)


# --- HTTP ----------------------------------------------------------------------------------------------------------


def answering(answer: bytes, pause_s: float) -> tuple[str, threading.Thread]:
    """Serve one connection, with pauses a byte at a time."""
    listening = socket.create_server(("localhost", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as connection:
            try:
                connection.recv(4096)
                if not pause_s:
                    connection.sendall(answer)
                    return
                for each in answer:
                    connection.sendall(bytes([each]))
                    stopped.wait(pause_s)
            except OSError:
                return

    stopped = threading.Event()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http://localhost:{listening.getsockname()[1]}/", thread


@pytest.mark.parametrize(
    ("answer", "pause_s", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000, 0.05, "did not answer within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + b"x" * 10_000, 0.01, "did not answer within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000, 0, "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000, 0, "longer than 1.0 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", 0, "does not speak HTTP"),
        (b"220 mail.example ESMTP\r\n", 0, "does not speak HTTP"),
        (b"", 0, "HTTP"),
    ],
)
def test_an_answer_is_bounded_in_time_and_bytes(answer: bytes, pause_s: float, problem: str) -> None:
    url, thread = answering(answer, pause_s)
    begun_s = time.monotonic()
    with pytest.raises(HttpFailed, match=problem):
        fetch(HttpRequest(url=url), None, 1024, 0.3 if pause_s else ANSWER_S)
    assert time.monotonic() - begun_s < ANSWER_S + 1
    thread.join(5)
