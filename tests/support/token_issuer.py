"""An authorization server of the tests: it signs tokens, and tells its public keys."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from kraft.server.config.security_settings import OAuthBearerSettings

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kraft"

SETTINGS: Final = OAuthBearerSettings(
    jwks_url="https://issuer.example/keys", expected_issuer=ISSUER, expected_audiences=("billing", AUDIENCE)
)

SigningKey = RSAKey | ECKey | OKPKey


def segment(value: object) -> str:
    """Return JSON as a part of a token has it."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).decode().rstrip("=")


class TokenIssuer:
    def __init__(self, key_id: str = "first", key: SigningKey | None = None, algorithm: str = "RS256") -> None:
        self.key_id = key_id
        self.key = key or RSAKey.generate_key(2_048)
        self.algorithm = algorithm

    def public_key(self, **changed: Any) -> dict[str, Any]:
        return {**self.key.as_dict(private=False), "kid": self.key_id, "use": "sig", **changed}

    def jwks(self, *others: TokenIssuer) -> bytes:
        return json.dumps({"keys": [each.public_key() for each in (self, *others)]}).encode()

    def write(self, path: Path, *others: TokenIssuer) -> str:
        """Write the keys into a file, and return its URL."""
        path.write_bytes(self.jwks(*others))
        return path.as_uri()

    def claims(self, user: str = "alice", **changed: Any) -> dict[str, Any]:
        """Return those of a token that is valid for an hour; a change to None removes one."""
        now_s = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now_s, "exp": now_s + 3_600, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, user: str = "alice", header: dict[str, Any] | None = None, **changed: Any) -> str:
        return self.signed(json.dumps(self.claims(user, **changed)).encode(), header)

    def signed(self, payload: bytes, header: dict[str, Any] | None = None) -> str:
        full = {"alg": self.algorithm, "kid": self.key_id, **(header or {})}
        full = {name: value for name, value in full.items() if value is not None}
        signing = f"{segment(full)}.{segment(payload)}"
        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        signature = registry.algorithms[self.algorithm].sign(signing.encode(), self.key)
        return f"{signing}.{segment(signature)}"
