"""Keys from files and by https: real servers on loopback, and what they can do wrong."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kraft.model.printable import readable_size
from kraft.tokens import fetching
from kraft.tokens.fetching import fetch_keys
from kraft.tokens.token_keys import KEY_SET_BYTES_MAX, KeysUnavailable
from tests.support.certificates import Authority

BODY = b'{"keys": []}'


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/keys")
            self.end_headers()
            return
        self.send_response(503 if self.path == "/broken" else 200)
        self.end_headers()
        try:
            if self.path == "/endless":
                while True:
                    self.wfile.write(b"x" * 65_536)
            while self.path == "/slow":
                self.wfile.write(b"x")
                time.sleep(0.05)
            self.wfile.write(BODY)
        except OSError:
            # The client has had enough.
            return

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def server(directory: Path) -> Iterator[tuple[str, Path]]:
    stores = Authority(directory).certify("node")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.keystore)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"https://localhost:{httpd.server_port}", stores.truststore
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(30)


@pytest.fixture(name="url")
def _url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with server(tmp_path) as (url, authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        yield url


def refused(url: str) -> str:
    with pytest.raises(KeysUnavailable) as refused:
        fetch_keys(url)
    return str(refused.value)


@pytest.mark.real_time
def test_keys_come_by_https(url: str) -> None:
    assert fetch_keys(f"{url}/keys") == BODY


@pytest.mark.real_time
def test_a_server_that_a_foreign_ca_certified_is_not_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "CERTIFICATE_VERIFY_FAILED" in refused(f"{url}/keys")


@pytest.mark.real_time
def test_a_redirection_is_not_followed(url: str) -> None:
    assert refused(f"{url}/redirect") == "the server answers 302"


@pytest.mark.real_time
def test_a_server_that_answers_an_error_or_too_much_has_no_keys(url: str) -> None:
    assert refused(f"{url}/broken") == "the server answers 503"
    assert refused(f"{url}/endless") == f"its answer is longer than {readable_size(KEY_SET_BYTES_MAX)}"


@pytest.mark.real_time
def test_a_server_that_goes_on_and_on_is_left_after_the_deadline(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_S_MAX", 0.5)
    assert refused(f"{url}/slow") == "it did not answer within 0.5 s"


def test_a_server_that_is_not_there_has_no_keys() -> None:
    assert "refused" in refused("https://127.0.0.1:1/keys")
    assert refused("https://127.0.0.1:99999/keys")


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my keys.json"
    file.write_bytes(BODY)
    assert fetch_keys(file.as_uri()) == BODY
    assert "No such file" in refused((tmp_path / "another").as_uri())
    assert "directory" in refused(tmp_path.as_uri())
    file.write_bytes(b"x" * (KEY_SET_BYTES_MAX + 1))
    assert "longer than" in refused(file.as_uri())
