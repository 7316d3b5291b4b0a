"""Public keys of an authorization server, by the ids that its tokens name: a JWK set (RFC 7517)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from msgspec import Struct

TokenKey = RSAKey | ECKey | OKPKey

KEY_SET_BYTES_MAX: Final = 256 * 1024

RSA_BITS_MIN: Final = 2_048
"""RFC 7518 requires it."""

RSA_BITS_MAX: Final = 8_192
"""A signature by a longer key takes milliseconds to verify."""

_CURVES: Final = ("P-256", "P-384", "P-521", "Ed25519", "Ed448")


class KeysUnavailable(Exception):
    """There are no keys to be had now; the message says why."""


class _WrittenKey(Struct, frozen=True):
    """One key as it is written. Only its public part is read, even if there is a private one."""

    kty: str
    kid: str | None = None
    use: str | None = None
    alg: str | None = None
    crv: str | None = None
    n: str | None = None
    e: str | None = None
    x: str | None = None
    y: str | None = None


class _WrittenSet(Struct, frozen=True):
    keys: list[msgspec.Raw]


class PublicKey(Struct, frozen=True, kw_only=True):
    id: str | None
    algorithm: str | None
    """The only one that it is for; None: any of its kind."""

    kind: str
    key: TokenKey


class TokenKeys(Struct, frozen=True):
    keys: Sequence[PublicKey]

    def find(self, key_id: str | None, kind: str, algorithm: str) -> TokenKey | None:
        """Return the key that a token names. One that names none is of the only key of that kind."""
        fitting = [each for each in self.keys if each.kind == kind and each.algorithm in (None, algorithm)]
        if key_id is not None:
            return next((each.key for each in fitting if each.id == key_id), None)
        return fitting[0].key if len(fitting) == 1 else None


NO_KEYS: Final = TokenKeys(())


def read_keys(data: bytes) -> TokenKeys:
    """Return the keys by which signatures can be verified. Others, and kinds not known here, are left out.

    Raises KeysUnavailable if none is left.
    """
    try:
        written = msgspec.json.decode(data, type=_WrittenSet)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KeysUnavailable('it is not a JWK set: expected {"keys": [...]}') from None
    found = [key for each in written.keys if (key := _key(each)) is not None]
    if not found:
        raise KeysUnavailable(f"none of its {len(written.keys)} keys is a public key for signatures")
    return TokenKeys(found)


def _key(raw: msgspec.Raw) -> PublicKey | None:
    try:
        written = msgspec.json.decode(raw, type=_WrittenKey)
        key = None if written.use == "enc" else _imported(written)
    except (msgspec.DecodeError, JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, RecursionError):
        return None
    return None if key is None else PublicKey(id=written.kid, algorithm=written.alg, kind=written.kty, key=key)


def _imported(written: _WrittenKey) -> TokenKey | None:
    public: dict[str, Any] = {
        name: value for name in ("kty", "crv", "n", "e", "x", "y") if (value := getattr(written, name)) is not None
    }
    # A key for HMAC is a secret, and none of these: who reads the set could sign.
    if written.kty == RSAKey.key_type:
        rsa = RSAKey.import_key(public)
        return rsa if RSA_BITS_MIN <= rsa.raw_value.key_size <= RSA_BITS_MAX else None
    if written.crv not in _CURVES:
        return None
    if written.kty == ECKey.key_type:
        return ECKey.import_key(public)
    return OKPKey.import_key(public) if written.kty == OKPKey.key_type else None
