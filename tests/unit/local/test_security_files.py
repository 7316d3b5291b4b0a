from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kraft.client.model.security import client_security
from kraft.local import security_files
from kraft.local.security_files import SecurityFiles, SecurityFilesError
from kraft.sasl.client import PasswordLogin
from kraft.server.config import properties
from kraft.tls import authority

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def make(directory: Path, *nodes: str, validity: timedelta = DAY) -> SecurityFiles:
    return security_files.make(directory, [node.split(",") for node in nodes or ("localhost",)], NOW, validity)[0]


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Shake hands in memory, as a client that connects to the host. Raises SSLError of either end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_all_files_are_for_their_owner_only(tmp_path: Path) -> None:
    files = make(tmp_path / "new" / "security")
    assert files.directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files.directory.iterdir()} == {0o600}
    assert {*contents(files.directory)} == {
        "ca.key",
        "ca.pem",
        "cluster.secret",
        "admin.password",
        "client.properties",
        "localhost.pem",
        "localhost.properties",
    }


def test_nothing_is_overwritten_and_what_is_missing_is_made(tmp_path: Path) -> None:
    files = make(tmp_path / "s", "one")
    before = contents(files.directory)
    _, made = security_files.make(files.directory, [["one"], ["two", "10.0.0.2"]], NOW, DAY)
    after = contents(files.directory)
    assert before.items() <= after.items()
    assert {*after} - {*before} == {"two.pem", "two.properties"}
    assert [each.path.name for each in made if each.created] == ["two.pem", "two.properties"]


def test_each_directory_has_secrets_of_its_own(tmp_path: Path) -> None:
    one, other = (contents(make(tmp_path / name).directory) for name in ("one", "other"))
    assert all(one[name] != other[name] for name in ("ca.key", "ca.pem", "cluster.secret", "admin.password"))
    assert len(one["admin.password"].strip()) == 32


def test_a_client_with_the_settings_knows_the_password_and_trusts_the_nodes(tmp_path: Path) -> None:
    files = make(tmp_path / "s", "localhost")
    settings = {each.key: each.value for each in properties.parse(files.client.read_bytes(), "client")}
    security = client_security(settings)
    assert isinstance(security.sasl, PasswordLogin)
    assert (security.protocol, security.sasl.user) == ("SASL_SSL", "admin")
    assert security.sasl.password.text == files.admin_password()


@pytest.mark.parametrize("host", ["broker.example.com", "10.0.0.7", "localhost", "127.0.0.1"])
def test_a_nodes_certificate_is_good_for_its_names_and_for_both_ends(tmp_path: Path, host: str) -> None:
    files = make(tmp_path / "s", "broker.example.com,10.0.0.7")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.keystore("broker.example.com"))
    server.load_verify_locations(files.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(files.authority))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(files.keystore("broker.example.com"))
    handshake(client, server, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client, server, "other.example.com")


def test_a_certificate_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    own, foreign = make(tmp_path / "own"), make(tmp_path / "foreign")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(foreign.keystore("localhost"))
    client = ssl.create_default_context(cafile=str(own.authority))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client, server, "localhost")


def test_a_certificate_ends_with_its_time_and_no_later_than_its_authority(tmp_path: Path) -> None:
    files = make(tmp_path / "s", validity=timedelta(days=30))
    end = security_files.end_of_validity(files.keystore("localhost"))
    assert abs(end - NOW - timedelta(days=30)) < timedelta(seconds=2)
    files.keystore("localhost").unlink()
    make(tmp_path / "s", validity=timedelta(days=9_000))
    end = security_files.end_of_validity(files.keystore("localhost"))
    assert end <= authority.end_of_validity(files.authority.read_bytes())


def test_an_authority_whose_key_is_kept_elsewhere_signs_nothing(tmp_path: Path) -> None:
    files = make(tmp_path / "s", "one")
    files.authority_key.unlink()
    make(tmp_path / "s", "one")
    with pytest.raises(SecurityFilesError, match=r"ca\.key is missing, and has to sign the certificate of two"):
        make(tmp_path / "s", "two")
    assert not files.authority_key.exists()
    assert not files.keystore("two").exists()


def test_the_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    files, other = make(tmp_path / "s", "one"), make(tmp_path / "other")
    files.authority_key.write_bytes(other.authority_key.read_bytes())
    with pytest.raises(SecurityFilesError, match="the key of the authority is not that of its certificate"):
        make(tmp_path / "s", "two")


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(SecurityFilesError, match="is open to other users: run 'chmod 700"):
        make(tmp_path / "open")
    assert contents(tmp_path / "open") == {}


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SecurityFilesError, match=r"file/s?: Not a directory|File exists|Not a directory"):
        make(tmp_path / "file" / "s")
