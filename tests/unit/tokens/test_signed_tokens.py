"""Tokens of OAUTHBEARER: which are valid, and the ways to forge one."""

from __future__ import annotations

import hashlib
import hmac
import json
import warnings
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from kraft.tokens.signed_tokens import (
    TOKEN_BYTES_MAX,
    InvalidToken,
    SignedToken,
    VerifiedToken,
    read_token,
    unknown_key,
    verified,
)
from kraft.tokens.token_keys import TokenKeys, read_keys
from tests.support.token_issuer import AUDIENCE, ISSUER, SETTINGS, SigningKey, TokenIssuer, segment

NOW_S = 1_700_000_000
RSA = RSAKey.generate_key(2_048)
TIMES: dict[str, Any] = {"iat": NOW_S - 60, "exp": NOW_S + 600}


@pytest.fixture(name="issuer")
def _issuer() -> TokenIssuer:
    return TokenIssuer(key=RSA)


def check(token: str, keys: TokenKeys, now_s: int = NOW_S, settings: Any = SETTINGS) -> VerifiedToken:
    signed = read_token(token)
    key = keys.find(signed.key_id, signed.key_kind, signed.algorithm)
    if key is None:
        raise unknown_key(signed)
    return verified(signed, key, settings, now_s)


def refused(token: str, issuer: TokenIssuer, **changed: Any) -> str:
    """Return the reason, which shows nothing of the token's signature."""
    with pytest.raises(InvalidToken) as rejected:
        check(token, read_keys(issuer.jwks()), **changed)
    parts = [part for part in token.split(".")[1:] if len(part) > 8]
    assert not any(part in rejected.value.reason for part in parts)
    assert len(rejected.value.reason) < 300
    return rejected.value.reason


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        *((f"{family}{bits}", RSA) for family in ("RS", "PS") for bits in (256, 384, 512)),
        ("ES256", ECKey.generate_key("P-256")),
        ("ES384", ECKey.generate_key("P-384")),
        ("ES512", ECKey.generate_key("P-521")),
        ("EdDSA", OKPKey.generate_key("Ed25519")),
        ("EdDSA", OKPKey.generate_key("Ed448")),
    ],
)
def test_a_valid_token_says_who_the_client_is_and_until_when(algorithm: str, key: SigningKey) -> None:
    issuer = TokenIssuer("k", key, algorithm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check(issuer.token(**TIMES), read_keys(issuer.jwks()))
    assert found == VerifiedToken(user="alice", expires_ms=(NOW_S + 600) * 1_000)


def test_a_token_of_more_than_one_audience_and_with_headers_of_others_is_valid(issuer: TokenIssuer) -> None:
    token = issuer.token(
        header={"typ": "at+jwt", "x-own": 1}, aud=["orders", AUDIENCE], scope="a b", nbf=NOW_S, **TIMES
    )
    assert check(token, read_keys(issuer.jwks())).user == "alice"


def test_a_token_that_names_no_key_is_of_the_only_one_of_its_kind(issuer: TokenIssuer) -> None:
    token = issuer.token(header={"kid": None}, **TIMES)
    other_kind = TokenIssuer("second", ECKey.generate_key("P-256"), "ES256")
    assert check(token, read_keys(issuer.jwks(other_kind))).user == "alice"
    with pytest.raises(InvalidToken, match="the token names no key"):
        check(token, read_keys(issuer.jwks(TokenIssuer("second"))))


def test_the_claims_with_user_and_scopes_may_have_other_names(issuer: TokenIssuer) -> None:
    settings = type(SETTINGS)(
        jwks_url=SETTINGS.jwks_url,
        expected_issuer=ISSUER,
        expected_audiences=(AUDIENCE,),
        subject_claim="client_id",
        scope_claim="scp",
    )
    token = issuer.token(client_id="orders-service", scp=["read"], scope=1, **TIMES)
    assert check(token, read_keys(issuer.jwks()), settings=settings).user == "orders-service"
    assert "claim client_id is no user" in refused(issuer.token(**TIMES), issuer, settings=settings)
    assert "claim scp is neither" in refused(
        issuer.token(client_id="c", scp={"a": 1}, **TIMES), issuer, settings=settings
    )


# --- forged ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "ES256K", "RSA-OAEP"]
)
def test_other_algorithms_are_never_accepted(issuer: TokenIssuer, algorithm: str) -> None:
    head = segment({"alg": algorithm, "kid": issuer.key_id})
    for signature in ("", segment(b"anything")):
        token = f"{head}.{segment(issuer.claims(**TIMES))}.{signature}"
        assert "expected one of RS256" in refused(token, issuer)


@pytest.mark.parametrize("secret_form", ["pem", "der", "modulus", "jwk"])
def test_the_public_key_is_no_secret_of_an_hmac(issuer: TokenIssuer, secret_form: str) -> None:
    public = issuer.key.as_dict(private=False)
    secrets = {
        "pem": issuer.key.as_pem(private=False),
        "der": issuer.key.as_der(private=False),
        "modulus": str(public["n"]).encode(),
        "jwk": json.dumps(issuer.public_key()).encode(),
    }
    signing = f"{segment({'alg': 'HS256', 'kid': issuer.key_id})}.{segment(issuer.claims(**TIMES))}"
    signature = segment(hmac.digest(secrets[secret_form], signing.encode(), hashlib.sha256))
    assert "expected one of RS256" in refused(f"{signing}.{signature}", issuer)


def test_another_key_of_the_same_id_has_signed_nothing(issuer: TokenIssuer) -> None:
    assert "no valid RS256 signature" in refused(TokenIssuer(issuer.key_id).token(**TIMES), issuer)


def test_the_key_that_a_token_brings_along_is_not_used(issuer: TokenIssuer) -> None:
    thief = TokenIssuer(issuer.key_id)
    header = {"jwk": thief.public_key(), "jku": "file:///etc/keys", "x5u": "https://thief.example"}
    assert "no valid RS256 signature" in refused(thief.token(header=header, **TIMES), issuer)


def test_an_algorithm_of_another_kind_of_key_finds_none(issuer: TokenIssuer) -> None:
    forged = TokenIssuer(issuer.key_id, ECKey.generate_key("P-256"), "ES256")
    assert "names key 'first' for ES256" in refused(forged.token(**TIMES), issuer)
    other_curve = TokenIssuer("k", ECKey.generate_key("P-384"), "ES384")
    token = TokenIssuer("k", ECKey.generate_key("P-256"), "ES256").token(**TIMES)
    assert "no valid ES256 signature" in refused(token, other_curve)


def test_whatever_is_changed_in_a_token_makes_it_invalid(issuer: TokenIssuer) -> None:
    header, payload, signature = issuer.token(**TIMES).split(".")
    admin = segment(issuer.claims("admin", **TIMES))
    for token in (
        f"{header}.{admin}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{signature[:-4]}",
        f"{header}.{payload}.{signature}AAAA",
        f"{header}.{payload}.{'A' * len(signature)}",
        f"{segment({'alg': 'RS512', 'kid': issuer.key_id})}.{payload}.{signature}",
        f"{segment({'alg': 'PS256', 'kid': issuer.key_id})}.{payload}.{signature}",
    ):
        assert "signature" in refused(token, issuer)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://thief.example"}, "claim iss, with the value 'https://thief.example'"),
        ({"iss": [ISSUER]}, "claim iss"),
        ({"iss": None}, "has not all claims: Missing claim: 'iss'"),
        ({"aud": "another"}, "claim aud, with the value 'another'"),
        ({"aud": ["another", "x" * 5_000]}, "claim aud, with the value ['another', 'xxx"),
        ({"aud": []}, "claim aud"),
        ({"aud": {AUDIENCE: 1}}, "claim aud"),
        ({"aud": None}, "has not all claims: Missing claim: 'aud'"),
        ({"exp": NOW_S - 31}, "has expired"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": None}, "has not all claims: Missing claim: 'exp'"),
        ({"exp": "2100-01-01"}, "claim exp"),
        ({"exp": True}, "claim exp"),
        ({"exp": 10**15}, "after the year 9999"),
        ({"exp": 10**400}, "after the year 9999"),
        ({"nbf": NOW_S + 31}, "claim nbf"),
        ({"nbf": "now"}, "claim nbf"),
        ({"iat": NOW_S + 31}, "claim iat"),
        ({"iat": None}, "has not all claims: Missing claim: 'iat'"),
        ({"sub": None}, "claim sub is no user"),
        ({"sub": ""}, "claim sub is no user"),
        ({"sub": 7}, "claim sub, with the value 7"),
        ({"sub": "a\nb"}, "claim sub is no user"),
        ({"sub": "a" * 256}, "claim sub is no user"),
        ({"scope": 7}, "claim scope is neither"),
        ({"scope": ["a", 7]}, "claim scope is neither"),
    ],
)
def test_a_token_of_the_right_server_has_to_be_for_us_and_for_now(
    issuer: TokenIssuer, changed: dict[str, Any], reason: str
) -> None:
    assert reason in refused(issuer.token(**{**TIMES, **changed}), issuer)


def test_clocks_may_differ_by_the_skew(issuer: TokenIssuer) -> None:
    keys = read_keys(issuer.jwks())
    early = issuer.token(iat=NOW_S + 30, nbf=NOW_S + 30, exp=NOW_S + 60)
    assert check(early, keys).expires_ms == (NOW_S + 60) * 1_000
    # By the server's clock it has not expired: what is left of the skew is the client's.
    late = issuer.token(iat=NOW_S - 60, exp=NOW_S - 29)
    assert check(late, keys).expires_ms == (NOW_S + 1) * 1_000


@pytest.mark.parametrize(
    "payload",
    [b"[]", b"7", b"{", b'{"exp": NaN}', b'{"exp": 1e999}', b"[" * 9_000, b'{"a":' + b"[" * 9_000, b"\xff", b""],
)
def test_claims_that_are_no_object_are_refused_though_they_are_signed(issuer: TokenIssuer, payload: bytes) -> None:
    refused(issuer.signed(payload), issuer)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "...",
        "a.b",
        "a.b.c.d.e",
        f"{segment(b'[' * 3_000)}.e30.e30",
        f"{segment({'alg': 'RS256', 'crit': ['b64'], 'b64': False})}.e30.e30",
        f"{segment({'alg': 'RS256', 'b64': False})}.e30.e30",
        f"{segment({'alg': ['RS256']})}.e30.e30",
        f"{segment({'alg': 'RS256', 'kid': {}})}.e30.e30",
        f"{segment(['alg'])}.e30.e30",
        f"{segment({'alg': 'RS256', 'x': 'y' * 5_000})}.e30.e30",
        f"{segment({'alg': 'RS256', 'kid': 'k' * 2_000})}.e30.e30",
        "é.é.é",
        "a" * (TOKEN_BYTES_MAX + 1),
    ],
)
def test_nonsense_is_refused_with_a_short_reason(issuer: TokenIssuer, token: str) -> None:
    refused(token, issuer)


def test_a_signature_that_needs_extensions_is_refused_though_it_is_right(issuer: TokenIssuer) -> None:
    for header in ({"crit": ["b64"], "b64": True}, {"b64": True}):
        assert "requires extensions" in refused(issuer.token(header=header, **TIMES), issuer)


def test_a_token_that_is_too_long_is_not_even_decoded(issuer: TokenIssuer) -> None:
    assert "longer than" in refused(issuer.token(padding="x" * TOKEN_BYTES_MAX, **TIMES), issuer)


def test_neither_a_long_header_nor_a_token_of_other_parts_is_decoded(
    issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_header, encrypted = issuer.token(header={"x5c": "A" * 4_096}, **TIMES), issuer.token(**TIMES) + ".a.b"
    monkeypatch.setattr("kraft.tokens.signed_tokens.msgspec", None)
    assert refused(long_header, issuer) == "the header of the token is too long"
    assert "three parts" in refused(encrypted, issuer)


def test_an_algorithm_that_slipped_through_has_verified_nothing(issuer: TokenIssuer) -> None:
    # As if the header had been read in two ways.
    unsigned = f"{segment({'alg': 'none'})}.{segment(issuer.claims('admin', **TIMES))}."
    (key,) = read_keys(issuer.jwks()).keys
    with pytest.raises(InvalidToken, match="no valid RS256 signature"):
        verified(SignedToken(text=unsigned, algorithm="RS256", key_id=None), key.key, SETTINGS, NOW_S)


def test_a_token_is_not_shown(issuer: TokenIssuer) -> None:
    assert repr(read_token(issuer.token())) == "SignedToken()"
