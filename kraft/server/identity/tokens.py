"""Tokens of OAUTHBEARER: signed JWTs (RFC 7519), verified without a clock or a network.

Reasons are for the log, and show nothing by which somebody else could log in.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

import msgspec
from joserfc import jws
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, MissingClaimError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry
from msgspec import UNSET, Struct, UnsetType

from kraft.sasl.exchange import Rejected
from kraft.server.config.security_settings import OAuthBearerSettings
from kraft.server.identity.token_keys import TokenKey

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
    """Return the token with what it says of its signature. Raises Rejected."""
    if len(text) > TOKEN_BYTES_MAX:
        raise Rejected(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
    if text.count(".") != 2:
        raise Rejected("the token is no signed JWT, which has three parts: it may be encrypted, or for its server only")
    encoded = text.partition(".")[0]
    if len(encoded) > _HEADER_BYTES_MAX:
        raise Rejected("the header of the token is too long")
    try:
        header = msgspec.json.decode(_decoded(encoded), type=_Header)
    except (ValueError, RecursionError):
        raise Rejected("the header of the token is no JSON with an algorithm") from None
    if header.alg not in KIND_OF:
        raise Rejected(f"the token is signed by {_shown(header.alg)}: expected one of {', '.join(KIND_OF)}")
    if header.crit is not UNSET or header.b64 is not UNSET:
        raise Rejected("the token requires extensions")
    return SignedToken(text=text, algorithm=header.alg, key_id=header.kid)


def _decoded(encoded: str) -> bytes:
    return b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)


class NoKeysYet(Exception):
    """No token can be verified yet, whatever it says."""

    def __init__(self) -> None:
        super().__init__("the broker has not fetched the keys of sasl.oauthbearer.jwks.endpoint.url yet")


def unknown_key(token: SignedToken) -> Rejected:
    named = "no key" if token.key_id is None else f"key {_shown(token.key_id)}"
    return Rejected(
        f"the token names {named} for {token.algorithm}, and the keys of sasl.oauthbearer.jwks.endpoint.url have none"
        " that fits"
    )


def verified(token: SignedToken, key: TokenKey, settings: OAuthBearerSettings, now_s: int) -> VerifiedToken:
    """Return what the token says, if `key` signed it and it is valid at `now_s` since 1970. Raises Rejected."""
    claims = _claims(_signed_payload(token, key))
    try:
        _rules(settings, now_s).validate(claims)
    except ExpiredTokenError:
        raise Rejected("the token has expired") from None
    except MissingClaimError as error:
        raise Rejected(f"the token has not all claims: {error.description}") from None
    except ClaimError as error:
        shown = f", with the value {_shown(claims[error.claim])}" if error.claim in claims else ""
        raise Rejected(f"the token is not valid by its claim {error.claim}{shown}") from None
    _check_scope(claims.get(settings.scope_claim), settings.scope_claim)
    expires_s = claims["exp"]
    if expires_s > _EXPIRES_S_MAX:
        raise Rejected("the token expires after the year 9999")
    if expires_s <= now_s:
        # By the clock of the server, which may be behind.
        expires_s += settings.clock_skew_s
    return VerifiedToken(user=_user(claims.get(settings.subject_claim), settings), expires_ms=int(expires_s * 1_000))


def _rules(settings: OAuthBearerSettings, now_s: int) -> JWTClaimsRegistry:
    return JWTClaimsRegistry(
        now=now_s,
        leeway=settings.clock_skew_s,
        iss={"essential": True, "value": settings.expected_issuer or ""},
        aud={"essential": True, "values": list(settings.expected_audiences)},
        exp={"essential": True},
        iat={"essential": True},
    )


def _signed_payload(token: SignedToken, key: TokenKey) -> bytes:
    try:
        payload = jws.deserialize_compact(token.text, key, registry=_ALGORITHMS).payload
    except (JoseError, ValueError, RecursionError):
        raise Rejected(f"the token has no valid {token.algorithm} signature") from None
    return payload


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise Rejected("the claims of the token are no JSON object") from None


def _user(found: object, settings: OAuthBearerSettings) -> str:
    if not isinstance(found, str) or not 0 < len(found) <= _USER_LENGTH_MAX or not found.isprintable():
        raise Rejected(
            f"the token's claim {settings.subject_claim} is no user: expected 1 to {_USER_LENGTH_MAX} printable"
            " characters"
        )
    return found


def _check_scope(found: object, claim: str) -> None:
    scopes = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(each, str) for each in scopes):
        raise Rejected(f"the token's claim {claim} is neither text nor a list of texts")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."
