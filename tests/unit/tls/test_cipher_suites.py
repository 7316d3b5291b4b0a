from __future__ import annotations

import ssl

import pytest

from kraft.tls.cipher_suites import TLS_1_3_SUITES, UnknownCipherSuite, cipher_suites, openssl_name


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_openssl_knows_the_name_that_java_has(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl + ":@SECLEVEL=0")


def test_suites_of_tls_1_3_are_kept_apart() -> None:
    suites = cipher_suites(["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", *TLS_1_3_SUITES])
    assert suites.tls_1_2 == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert suites.has_tls_1_3
    assert not cipher_suites(["ECDHE-RSA-AES128-GCM-SHA256"]).has_tls_1_3


def test_one_suite_of_tls_1_3_without_the_others_is_refused() -> None:
    with pytest.raises(UnknownCipherSuite, match="add TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256"):
        cipher_suites(["TLS_AES_128_GCM_SHA256"])
