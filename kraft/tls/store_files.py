"""Reads keys, certificates and trusted CAs from where the settings say they are."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kraft.model.password import Password
from kraft.tls.stores import KeyStore, KeyStoreFile, StoreType, TrustStore, TrustStoreFile

FILE_BYTES_MAX: Final = 1 << 20

READ_BY_OTHERS: Final = 0o007
"""Mode bits that a file with a private key must not have. Its group may be that of several services."""

_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""First bytes of JKS and JCEKS."""

_PRIVATE_KEY: Final = b"PRIVATE KEY-----"
"""What the first line of a private key ends with, of whatever kind."""

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)
_LINE_CHARACTERS: Final = 64

_KEY_STORE: Final = "ssl.keystore"
_TRUST_STORE: Final = "ssl.truststore"


class StoreError(Exception):
    """A store cannot be used. The text is one line that names the key and the remedy, and nothing that is secret."""


class KeyMaterial(Struct, frozen=True):
    """A private key and its certificates in PEM; the key is not encrypted."""

    private_key: bytes
    certificates: bytes
    """The owner's certificate, and behind it those of the CAs between it and a trusted one."""

    def __repr__(self) -> str:
        return "KeyMaterial([hidden])"


def read_key_store(store: KeyStore) -> KeyMaterial:
    """Read a key and its certificates. Raises StoreError. To decrypt a key takes up to some hundred milliseconds."""
    if not isinstance(store, KeyStoreFile):
        keys = pem_blocks(store.key.text.encode())
        return _material(keys, pem_blocks(store.certificate_chain.encode()), store.key_password, "ssl.keystore.key")
    where = f"{_KEY_STORE}.location: {store.path}"
    data = _read(store.path, _KEY_STORE, store.type, forbidden=READ_BY_OTHERS)
    if store.type is StoreType.PKCS12:
        return _key_of_pkcs12(data, store.password, where)
    blocks = pem_blocks(data)
    return _material(blocks, blocks, store.key_password or store.password, where)


def read_trust_store(store: TrustStore) -> bytes:
    """Return the certificates of the trusted CAs in PEM. Raises StoreError."""
    if not isinstance(store, TrustStoreFile):
        where, blocks = "ssl.truststore.certificates", pem_blocks(store.certificates.encode())
    else:
        where = f"{_TRUST_STORE}.location: {store.path}"
        data = _read(store.path, _TRUST_STORE, store.type, forbidden=0)
        if store.type is StoreType.PKCS12:
            found = _load_pkcs12(data, store.password, where, _TRUST_STORE)
            return _certificates_pem([*([found.cert] if found.cert else []), *found.additional_certs], where)
        blocks = pem_blocks(data)
    certificates = [block for kind, block in blocks if kind.endswith("CERTIFICATE")]
    if not certificates:
        raise StoreError(f"{where}: there is no certificate in it: it needs those of the trusted CAs, in PEM")
    return b"".join(certificates)


# --- PEM ---------------------------------------------------------------------------------------------------------


def pem_blocks(text: bytes) -> list[tuple[str, bytes]]:
    """Return kind and content of each block. In a properties file a block may stand on one line, with spaces in it."""
    found = []
    for match in _BLOCK.finditer(text):
        kind, body = match[1].decode(), match[2]
        if b":" not in body:
            # No headers, as an old encrypted key has them.
            characters = b"".join(body.split())
            lines = range(0, len(characters), _LINE_CHARACTERS)
            body = b"\n" + b"".join(characters[at : at + _LINE_CHARACTERS] + b"\n" for at in lines)
        found.append((kind, b"-----BEGIN %s-----%s-----END %s-----\n" % (match[1], body, match[1])))
    return found


def _material(
    keys: Iterable[tuple[str, bytes]],
    certificates: Iterable[tuple[str, bytes]],
    password: Password | None,
    where: str,
) -> KeyMaterial:
    private = [(kind, block) for kind, block in keys if kind.endswith("PRIVATE KEY")]
    chain = [block for kind, block in certificates if kind == "CERTIFICATE"]
    if len(private) != 1 or not chain:
        raise StoreError(f"{where}: expected one private key and its certificates, in PEM")
    kind, key = private[0]
    if kind.startswith("ENCRYPTED") or b"ENCRYPTED" in key.split(b"\n\n")[0]:
        key = _decrypted(key, password, where)
    return KeyMaterial(key, b"".join(chain))


def _decrypted(key: bytes, password: Password | None, where: str) -> bytes:
    # Imported where they are used: a node without TLS does without.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    if password is None:
        raise StoreError(f"{where}: its private key is encrypted: set ssl.key.password")
    try:
        return _unencrypted_pem(serialization.load_pem_private_key(key, password.text.encode()))
    except (ValueError, UnsupportedAlgorithm):
        raise StoreError(f"{where}: ssl.key.password does not decrypt its private key: correct one of them") from None


# --- PKCS#12 -----------------------------------------------------------------------------------------------------


def _key_of_pkcs12(data: bytes, password: Password | None, where: str) -> KeyMaterial:
    found = _load_pkcs12(data, password, where, _KEY_STORE)
    if found.key is None or found.cert is None:
        raise StoreError(f"{where}: there is no private key with a certificate in it: it may be a truststore")
    chain, others = [found.cert], list(found.additional_certs)
    while others:
        issuer = next((each for each in others if each.certificate.subject == chain[-1].certificate.issuer), None)
        if issuer is None:
            break
        others.remove(issuer)
        chain.append(issuer)
    return KeyMaterial(_unencrypted_pem(found.key), _certificates_pem(chain, where))


def _load_pkcs12(data: bytes, password: Password | None, where: str, prefix: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.text.encode())
    except UnsupportedAlgorithm as error:
        raise StoreError(f"{where}: its encryption is not supported ({error}): create it again with AES-256") from None
    except ValueError:
        raise StoreError(
            f"{where}: {prefix}.password does not open it, or it is no PKCS12 store: correct one of them"
        ) from None


def _unencrypted_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem


def _certificates_pem(certificates: list[Any], where: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    if not certificates:
        raise StoreError(f"{where}: there is no certificate in it: it needs those of the trusted CAs")
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates)


# --- files -------------------------------------------------------------------------------------------------------


def _read(path: Path, prefix: str, store_type: StoreType, *, forbidden: int) -> bytes:
    where = f"{prefix}.location: {path}"
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise StoreError(f"{prefix}.location: cannot read {path}: {error.strerror}") from None
    has_certificates_only = _BLOCK.search(data) is not None and _PRIVATE_KEY not in data
    if stat.S_IMODE(found.st_mode) & forbidden and not has_certificates_only:
        raise StoreError(f"{where} has a private key and can be read by others: chmod 600 {path}")
    if len(data) > FILE_BYTES_MAX:
        raise StoreError(f"{where} is larger than {FILE_BYTES_MAX} bytes: name another file")
    if data.startswith(_JAVA_MAGIC):
        raise StoreError(
            f"{where} is a JKS store, which only Java reads: convert it with keytool -importkeystore -srckeystore "
            f"{path} -destkeystore {path.with_suffix('.p12')} -deststoretype PKCS12, and set {prefix}.type=PKCS12"
        )
    if store_type is StoreType.PEM and data.startswith(b"\x30") and not _BLOCK.search(data):
        raise StoreError(f"{where} is not PEM: if it is a PKCS12 store, set {prefix}.type=PKCS12")
    if store_type is StoreType.PKCS12 and _BLOCK.search(data):
        raise StoreError(f"{where} is PEM: set {prefix}.type=PEM")
    return data
