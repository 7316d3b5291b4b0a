from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12

from kraft.model.password import Password
from kraft.tls.store_files import KeyMaterial, StoreError, read_key_store, read_trust_store
from kraft.tls.stores import KeyStoreFile, KeyStoreText, StoreType, TrustStoreFile, TrustStoreText
from tests.support.certificates import Stores
from tests.support.tls_wire import stores

PASSWORD = Password("store secret")


@pytest.fixture
def pem() -> Stores:
    return stores()


def _split(store: Stores) -> tuple[str, str]:
    """Return key and certificate."""
    end = "-----END PRIVATE KEY-----\n"
    key, _, certificate = store.keystore.read_text().partition(end)
    return key + end, certificate


def _encrypted(key: str, password: bytes) -> str:
    loaded = serialization.load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, BestAvailableEncryption(password)
    ).decode()


def _pkcs12(store: Stores, path: Path, password: bytes | None) -> Path:
    key, certificate = (part.encode() for part in _split(store))
    loaded: Any = serialization.load_pem_private_key(key, None)
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    authority = x509.load_pem_x509_certificate(store.truststore.read_bytes())
    data = pkcs12.serialize_key_and_certificates(
        b"node", loaded, x509.load_pem_x509_certificate(certificate), [authority], encryption
    )
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def _is_usable(material: KeyMaterial, tmp_path: Path) -> bool:
    file = tmp_path / "used.pem"
    file.write_bytes(material.private_key + material.certificates)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
    return True


def test_a_pem_file_has_key_and_certificates(pem: Stores, tmp_path: Path) -> None:
    material = read_key_store(KeyStoreFile(path=pem.keystore))
    assert _is_usable(material, tmp_path)
    assert b"PRIVATE" not in material.certificates
    assert "PRIVATE" not in repr(material)


def test_pem_may_stand_in_the_settings_on_one_line(pem: Stores, tmp_path: Path) -> None:
    key, certificate = (" ".join(part.split("\n")) for part in _split(pem))
    assert _is_usable(read_key_store(KeyStoreText(certificate_chain=certificate, key=Password(key))), tmp_path)
    trusted = read_trust_store(TrustStoreText(certificates=pem.truststore.read_text().replace("\n", " ")))
    ssl.create_default_context(cadata=trusted.decode())


def test_an_encrypted_key_needs_its_password(pem: Stores, tmp_path: Path) -> None:
    key, certificate = _split(pem)
    file = tmp_path / "encrypted.pem"
    file.touch(mode=0o600)
    file.write_text(_encrypted(key, b"key secret") + certificate)
    assert _is_usable(read_key_store(KeyStoreFile(path=file, key_password=Password("key secret"))), tmp_path)
    with pytest.raises(StoreError, match=r"encrypted: set ssl\.key\.password"):
        read_key_store(KeyStoreFile(path=file))
    with pytest.raises(StoreError, match="does not decrypt") as refused:
        read_key_store(KeyStoreFile(path=file, key_password=Password("wrong one")))
    assert "wrong one" not in str(refused.value)


@pytest.mark.parametrize("password", [None, PASSWORD])
def test_a_pkcs12_store_has_key_and_chain(pem: Stores, tmp_path: Path, password: Password | None) -> None:
    path = _pkcs12(pem, tmp_path / "node.p12", None if password is None else password.text.encode())
    material = read_key_store(KeyStoreFile(path=path, type=StoreType.PKCS12, password=password))
    assert _is_usable(material, tmp_path)
    assert material.certificates.count(b"BEGIN CERTIFICATE") == 2
    assert material.certificates.endswith(pem.truststore.read_bytes())


def test_a_wrong_password_of_a_pkcs12_store_is_refused_without_showing_it(pem: Stores, tmp_path: Path) -> None:
    path = _pkcs12(pem, tmp_path / "node.p12", b"right")
    with pytest.raises(StoreError, match=r"ssl\.keystore\.password does not open it") as refused:
        read_key_store(KeyStoreFile(path=path, type=StoreType.PKCS12, password=Password("wrong one")))
    assert "wrong one" not in str(refused.value)


def test_a_truststore_may_be_a_pkcs12_store(pem: Stores, tmp_path: Path) -> None:
    authority = x509.load_pem_x509_certificate(pem.truststore.read_bytes())
    path = tmp_path / "trusted.p12"
    path.write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], BestAvailableEncryption(b"open"))
    )
    store = TrustStoreFile(path=path, type=StoreType.PKCS12, password=Password("open"))
    assert read_trust_store(store) == pem.truststore.read_bytes()


def test_a_jks_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "node.jks"
    path.touch(mode=0o600)
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(StoreError, match=rf"keytool -importkeystore -srckeystore {path} -destkeystore .*node\.p12"):
        read_key_store(KeyStoreFile(path=path))
    with pytest.raises(StoreError, match=r"ssl\.truststore\.type=PKCS12"):
        read_trust_store(TrustStoreFile(path=path))


def test_a_store_of_the_other_type_is_told_apart(pem: Stores, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is PEM: set ssl\.keystore\.type=PEM"):
        read_key_store(KeyStoreFile(path=pem.keystore, type=StoreType.PKCS12))
    with pytest.raises(StoreError, match=r"set ssl\.keystore\.type=PKCS12"):
        read_key_store(KeyStoreFile(path=_pkcs12(pem, tmp_path / "node.p12", None)))


def test_a_key_that_others_can_read_is_refused(pem: Stores, tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    path.write_bytes(pem.keystore.read_bytes())
    path.chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        read_key_store(KeyStoreFile(path=path))
    path.chmod(0o640)
    read_key_store(KeyStoreFile(path=path))


def test_certificates_that_others_can_read_lack_a_key_and_no_secrecy(pem: Stores, tmp_path: Path) -> None:
    path = tmp_path / "certificates.pem"
    path.write_bytes(pem.truststore.read_bytes())
    path.chmod(0o644)
    with pytest.raises(StoreError) as refused:
        read_key_store(KeyStoreFile(path=path))
    assert "private key" in str(refused.value)
    assert "chmod" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----", b"garbage\xff"])
def test_a_file_without_what_it_is_for_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node.pem"
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="expected one private key"):
        read_key_store(KeyStoreFile(path=path))
    with pytest.raises(StoreError, match="no certificate in it"):
        read_trust_store(TrustStoreFile(path=path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"ssl\.truststore\.location: cannot read .*: No such file"):
        read_trust_store(TrustStoreFile(path=tmp_path / "none.pem"))
