"""JWK sets: which keys are taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from kraft.tokens.token_keys import KeysUnavailable, read_keys
from tests.support.token_issuer import TokenIssuer

EC: dict[str, Any] = {**ECKey.generate_key("P-256").as_dict(private=False), "kid": "ec"}


def jwks(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.parametrize(
    "other",
    [
        OctKey.generate_key(256).as_dict(private=True),
        RSAKey.generate_key(1_024).as_dict(private=False),
        {**EC, "use": "enc"},
        {**EC, "x": "AAAA"},
        {**EC, "crv": "secp256k1"},
        {**EC, "y": None},
        {**EC, "kty": "RSA"},
        OKPKey.generate_key("X25519").as_dict(private=False),
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "n": "AQAB" * 1_000, "e": "AQAB"},
        {"kty": "AKP", "alg": "ML-DSA-44"},
        {},
        7,
        None,
        "text",
    ],
)
def test_keys_that_verify_no_signature_are_left_out(other: Any) -> None:
    found = read_keys(jwks(other, EC))
    assert [each.id for each in found.keys] == ["ec"]
    with pytest.raises(KeysUnavailable, match="none of its 1 keys is a public key for signatures"):
        read_keys(jwks(other))


def test_the_private_part_of_a_key_is_not_read() -> None:
    found = read_keys(jwks({**RSAKey.generate_key(2_048).as_dict(private=True), "kid": "k"}))
    assert not found.keys[0].key.is_private


def test_a_key_for_one_algorithm_is_found_for_no_other() -> None:
    issuer = TokenIssuer("k")
    found = read_keys(jwks(issuer.public_key(alg="RS256")))
    assert found.find("k", "RSA", "RS256") is not None
    assert found.find("k", "RSA", "PS256") is None
    assert found.find("another", "RSA", "RS256") is None
    assert found.find("k", "EC", "ES256") is None


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"keys": 7}', b"[" * 100_000, b'{"keys": []}', b"<html>"]
)
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(KeysUnavailable):
        read_keys(data)
