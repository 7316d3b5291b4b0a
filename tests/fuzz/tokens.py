"""Tokens of strangers, and what an authorization server says: any bytes, of which no other's may be a valid token."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import OKPKey

from kraft.tokens.signed_tokens import InvalidToken, read_token, verified
from kraft.tokens.token_keys import KeysUnavailable, TokenKeys, read_keys
from tests.support.token_issuer import AUDIENCE, ISSUER, SETTINGS, TokenIssuer

_NOW_S: Final = 1_700_000_000
_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@cache
def _issuer() -> TokenIssuer:
    pem = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return TokenIssuer("first", OKPKey.import_key(pem), "EdDSA")


@cache
def _keys() -> TokenKeys:
    return read_keys(_issuer().jwks())


def verify_token(data: bytes) -> None:
    """The bytes are a token, and the claims of a signed one."""
    user = _user_of(data.decode("latin-1"))
    assert user is None or data in tokens(), "somebody else's token is valid"
    _user_of(_issuer().signed(data))


def _user_of(token: str) -> str | None:
    try:
        read = read_token(token)
        key = _keys().find(read.key_id, read.key_kind, read.algorithm)
        return None if key is None else verified(read, key, SETTINGS, _NOW_S).user
    except InvalidToken as rejected:
        reason = rejected.reason
    assert len(reason) < 400, "the reason is for a line of the log"
    return None


@cache
def tokens() -> tuple[bytes, ...]:
    issuer = _issuer()
    times: dict[str, Any] = {"iat": _NOW_S - 60, "exp": _NOW_S + 600}
    claims = f'{{"iss":"{ISSUER}","aud":["{AUDIENCE}"],"sub":"alice","iat":{_NOW_S},"exp":{_NOW_S + 9},"scope":"a"}}'
    return (issuer.token(**times).encode(), issuer.token(header={"kid": None}, **times).encode(), claims.encode())


def token_keys(data: bytes) -> None:
    try:
        assert read_keys(data).keys
    except KeysUnavailable:
        return


def key_sets() -> tuple[bytes, ...]:
    return (_issuer().jwks(), _issuer().jwks(TokenIssuer("second")))
