from __future__ import annotations

import ssl
from pathlib import Path

import msgspec
import pytest

from kraft.tls.cipher_suites import TLS_1_3_SUITES
from kraft.tls.contexts import client_context, introducing_context, server_context
from kraft.tls.store_files import StoreError
from kraft.tls.stores import ClientAuth, KeyStoreFile, TlsVersion, TrustStoreText
from tests.support.certificates import Authority
from tests.support.tls_wire import settings, stores


def test_a_listener_has_tls_1_2_and_1_3_and_nothing_that_undoes_them() -> None:
    context = server_context(settings()).context
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.num_tickets == 0
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("client_auth", "mode"),
    [(ClientAuth.REQUESTED, ssl.CERT_OPTIONAL), (ClientAuth.REQUIRED, ssl.CERT_REQUIRED)],
)
def test_client_authentication_needs_a_truststore(client_auth: ClientAuth, mode: ssl.VerifyMode) -> None:
    wanted = settings(client_auth)
    assert server_context(wanted).context.verify_mode == mode
    with pytest.raises(StoreError, match=rf"ssl\.client\.auth={client_auth} needs"):
        server_context(msgspec.structs.replace(wanted, trust_store=None))


def test_a_listener_needs_a_key() -> None:
    with pytest.raises(StoreError, match=r"ssl\.keystore\.location"):
        server_context(msgspec.structs.replace(settings(), key_store=None))


def test_its_certificate_is_the_first_of_the_store() -> None:
    pem = stores().keystore.read_text().partition("-----END PRIVATE KEY-----\n")[2]
    assert server_context(settings()).certificate == ssl.PEM_cert_to_DER_cert(pem)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, two = (authority.certify(name).keystore.read_text() for name in ("one", "two"))
    end = "-----END PRIVATE KEY-----\n"
    mixed = tmp_path / "mixed.pem"
    mixed.touch(mode=0o600)
    mixed.write_text(one.partition(end)[0] + end + two.partition(end)[2])
    with pytest.raises(StoreError, match="KEY_VALUES_MISMATCH"):
        server_context(msgspec.structs.replace(settings(), key_store=KeyStoreFile(path=mixed)))


def test_a_truststore_that_openssl_cannot_read_is_refused() -> None:
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    wanted = msgspec.structs.replace(settings(), trust_store=TrustStoreText(certificates=broken))
    with pytest.raises(StoreError, match=r"ssl\.truststore: OpenSSL refuses"):
        client_context(wanted)


@pytest.mark.parametrize(
    ("protocols", "suites", "versions"),
    [
        ((TlsVersion.TLS_1_2,), (), (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)),
        ((TlsVersion.TLS_1_3,), (), (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)),
        (
            tuple(TlsVersion),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",),
            (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        ),
        (tuple(TlsVersion), tuple(TLS_1_3_SUITES), (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)),
    ],
)
def test_versions_are_those_that_are_enabled_and_have_a_suite(
    protocols: tuple[TlsVersion, ...], suites: tuple[str, ...], versions: tuple[ssl.TLSVersion, ...]
) -> None:
    wanted = msgspec.structs.replace(settings(), protocols=protocols, cipher_suites=suites)
    context = server_context(wanted).context
    assert (context.minimum_version, context.maximum_version) == versions


@pytest.mark.parametrize(
    ("protocols", "suites"),
    [
        ((TlsVersion.TLS_1_3,), ("ECDHE-RSA-AES128-GCM-SHA256",)),
        (tuple(TlsVersion), ("NO-SUCH-SUITE",)),
        (tuple(TlsVersion), ("TLS_AES_128_GCM_SHA256",)),
    ],
)
def test_suites_that_cannot_be_used_are_refused(protocols: tuple[TlsVersion, ...], suites: tuple[str, ...]) -> None:
    with pytest.raises(StoreError, match=r"ssl\.cipher\.suites"):
        server_context(msgspec.structs.replace(settings(), protocols=protocols, cipher_suites=suites))


def test_a_client_checks_the_certificate_and_the_host() -> None:
    context = client_context(settings())
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not client_context(msgspec.structs.replace(settings(), verifies_host=False)).check_hostname


def test_a_node_leaves_the_check_to_the_clusters_secret() -> None:
    assert introducing_context(settings()).verify_mode == ssl.CERT_NONE
