"""Signed JWTs (RFC 7519), such as the tokens of OAUTHBEARER, verified without a clock or a network.

Reasons are for the log, and show nothing by which somebody else could log in.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
from joserfc import jws
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, MissingClaimError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry
from msgspec import UNSET, Struct, UnsetType

from kraft.tokens.token_keys import TokenKey

KIND_OF: Final = {
    **{f"{family}{bits}": "RSA" for family in ("RS", "PS") for bits in (256, 384, 512)},
    **{f"ES{bits}": "EC" for bits in (256, 384, 512)},
    "EdDSA": "OKP",
}
"""Algorithms by which a token may be signed, with the kind of their keys.

Not `none`, and no HMAC: its key could be whatever the sender takes for one, such as the text of a public key.
"""

TOKEN_BYTES_MAX: Final = 32 * 1024

_HEADER_BYTES_MAX: Final = 4 * 1024
"""Some servers put certificates there."""

_USER_LENGTH_MAX: Final = 255
_EXPIRES_S_MAX: Final = 253_402_300_799
"""The end of the year 9999, so that times fit in messages."""

_SHOWN_LENGTH_MAX: Final = 80


class InvalidToken(Exception):
    """The token is not valid; `reason` is for a log, and shows nothing of its signature."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TokenRules(Protocol):
    """What a valid token has to say."""

    @property
    def expected_issuer(self) -> str | None: ...

    @property
    def expected_audiences(self) -> tuple[str, ...]: ...

    @property
    def clock_skew_s(self) -> int: ...

    @property
    def scope_claim(self) -> str: ...

    @property
    def subject_claim(self) -> str: ...


class VerifiedToken(Struct, frozen=True, kw_only=True):
    """What a valid token says."""

    user: str
    expires_ms: int
    """In ms since 1970."""


class SignedToken(Struct, frozen=True, kw_only=True):
    """A token before its signature was verified."""

    text: str
    algorithm: str
    key_id: str | None

    @property
    def key_kind(self) -> str:
        return KIND_OF[self.algorithm]

    def __repr__(self) -> str:
        return "SignedToken()"


class _Header(Struct, frozen=True):
    alg: str
    kid: str | None = None
    crit: msgspec.Raw | UnsetType = UNSET
    b64: msgspec.Raw | UnsetType = UNSET


class _Algorithms(JWSRegistry):
    max_header_length = _HEADER_BYTES_MAX
    max_payload_length = TOKEN_BYTES_MAX
    max_signature_length = 2 * 1024

    def get_alg(self, name: str) -> JWSAlgModel:
        # The library's own would also warn on standard error that EdDSA is to be written Ed25519.
        if name not in KIND_OF:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_ALGORITHMS: Final = _Algorithms(strict_check_header=False)


def read_token(text: str) -> SignedToken:
    """Return the token with what it says of its signature. Raises InvalidToken."""
    if len(text) > TOKEN_BYTES_MAX:
        raise InvalidToken(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
    if text.count(".") != 2:
        raise InvalidToken(
            "the token is no signed JWT, which has three parts: it may be encrypted, or for its server only"
        )
    encoded = text.partition(".")[0]
    if len(encoded) > _HEADER_BYTES_MAX:
        raise InvalidToken("the header of the token is too long")
    try:
        header = msgspec.json.decode(_decoded(encoded), type=_Header)
    except (ValueError, RecursionError):
        raise InvalidToken("the header of the token is no JSON with an algorithm") from None
    if header.alg not in KIND_OF:
        raise InvalidToken(f"the token is signed by {_shown(header.alg)}: expected one of {', '.join(KIND_OF)}")
    if header.crit is not UNSET or header.b64 is not UNSET:
        raise InvalidToken("the token requires extensions")
    return SignedToken(text=text, algorithm=header.alg, key_id=header.kid)


def _decoded(encoded: str) -> bytes:
    return b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)


class NoKeysYet(Exception):
    """No token can be verified yet, whatever it says."""

    def __init__(self) -> None:
        super().__init__("the broker has not fetched the keys of sasl.oauthbearer.jwks.endpoint.url yet")


def unknown_key(token: SignedToken) -> InvalidToken:
    named = "no key" if token.key_id is None else f"key {_shown(token.key_id)}"
    return InvalidToken(
        f"the token names {named} for {token.algorithm}, and the keys of sasl.oauthbearer.jwks.endpoint.url have none"
        " that fits"
    )


def verified(token: SignedToken, key: TokenKey, rules: TokenRules, now_s: int) -> VerifiedToken:
    """Return what the token says, if `key` signed it and it is valid at `now_s` since 1970. Raises InvalidToken."""
    claims = valid_claims(token, key, rules, now_s)
    _check_scope(claims.get(rules.scope_claim), rules.scope_claim)
    expires_s = claims["exp"]
    if expires_s > _EXPIRES_S_MAX:
        raise InvalidToken("the token expires after the year 9999")
    if expires_s <= now_s:
        # By the clock of the server, which may be behind.
        expires_s += rules.clock_skew_s
    return VerifiedToken(user=user_of(claims, rules.subject_claim), expires_ms=int(expires_s * 1_000))


def valid_claims(token: SignedToken, key: TokenKey, rules: TokenRules, now_s: int) -> dict[str, Any]:
    """Return the claims, if `key` signed the token and issuer, audience and times are right. Raises InvalidToken."""
    claims = _claims(_signed_payload(token, key))
    try:
        _rules(rules, now_s).validate(claims)
    except ExpiredTokenError:
        raise InvalidToken("the token has expired") from None
    except MissingClaimError as error:
        raise InvalidToken(f"the token has not all claims: {error.description}") from None
    except ClaimError as error:
        shown = f", with the value {_shown(claims[error.claim])}" if error.claim in claims else ""
        raise InvalidToken(f"the token is not valid by its claim {error.claim}{shown}") from None
    return claims


def _rules(rules: TokenRules, now_s: int) -> JWTClaimsRegistry:
    return JWTClaimsRegistry(
        now=now_s,
        leeway=rules.clock_skew_s,
        iss={"essential": True, "value": rules.expected_issuer or ""},
        aud={"essential": True, "values": list(rules.expected_audiences)},
        exp={"essential": True},
        iat={"essential": True},
    )


def _signed_payload(token: SignedToken, key: TokenKey) -> bytes:
    try:
        payload = jws.deserialize_compact(token.text, key, registry=_ALGORITHMS).payload
    except (JoseError, ValueError, RecursionError):
        raise InvalidToken(f"the token has no valid {token.algorithm} signature") from None
    return payload


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise InvalidToken("the claims of the token are no JSON object") from None


def user_of(claims: Mapping[str, Any], claim: str) -> str:
    """Return the user that this claim names. Raises InvalidToken."""
    found = claims.get(claim)
    if not isinstance(found, str) or not 0 < len(found) <= _USER_LENGTH_MAX or not found.isprintable():
        raise InvalidToken(
            f"the token's claim {claim} is no user: expected 1 to {_USER_LENGTH_MAX} printable characters"
        )
    return found


def _check_scope(found: object, claim: str) -> None:
    scopes = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(each, str) for each in scopes):
        raise InvalidToken(f"the token's claim {claim} is neither text nor a list of texts")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."
