"""An OpenID provider as the console asks it: what it says of itself, codes for tokens, and tokens renewed.

Every call blocks, within the deadline of a fetch. Addresses are those of the issuer's own document; no redirection is
followed; each answer is bounded. Sources: OpenID Connect Core and Discovery 1.0, RFC 6749, RFC 7636, RFC 9207.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from kraft.console.oidc.settings import OidcSettings, is_safe_url
from kraft.fetching.bounded_http import HttpRequest
from kraft.model.password import Password
from kraft.model.printable import printable
from kraft.tokens.fetching import ErrorStatus, NotFetched, fetched
from kraft.tokens.signed_tokens import InvalidToken, SignedToken, read_token, unknown_key, user_of, valid_claims
from kraft.tokens.token_keys import KEY_SET_BYTES_MAX, KeysUnavailable, TokenKey, TokenKeys, read_keys

T = TypeVar("T")

ANSWER_BYTES_MAX: Final = 256 * 1024
CLOCK_SKEW_S: Final = 30

DISCOVERED_S_MAX: Final = 3_600.0
"""How long the provider's document and keys are used before they are fetched again."""

UNKNOWN_KEY_PAUSE_S: Final = 10.0
"""A key that is not known brings a fetch if the last one is this long ago."""

_SAID_LENGTH_MAX: Final = 200
_JSON: Final = {"Accept": "application/json"}
_SENDABLE: Final = re.compile(r"[-_.a-zA-Z0-9]{1,65536}")
"""Access tokens that brokers take, by their part of OAUTHBEARER (RFC 7628)."""


class Refused(Exception):
    """The provider refuses, for good; one clause that says what it says."""


class Away(Exception):
    """The provider cannot be asked now, or answers what cannot be used; one clause that says why."""


class Document(Struct, frozen=True):
    """What the provider says of itself (discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Answer(Struct, frozen=True):
    """An answer of the token endpoint."""

    access_token: str
    token_type: str
    id_token: str = ""
    refresh_token: str = ""
    expires_in: float | str | None = None


class _Error(Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _Expiry(Struct, frozen=True):
    exp: float


class Tokens(Struct, frozen=True, kw_only=True):
    access: Password
    refresh: Password | None
    lifetime_s: float | None
    """How long the access token is valid from now on; None: not known."""


class Identity(Struct, frozen=True, kw_only=True):
    """Who has logged in, as the ID token says."""

    user: str
    claims: Mapping[str, Any]


class _IdTokenRules(Struct, frozen=True, kw_only=True):
    expected_issuer: str | None
    expected_audiences: tuple[str, ...]
    subject_claim: str
    clock_skew_s: int = CLOCK_SKEW_S
    scope_claim: str = "scope"


class Provider:
    """Thread-safe."""

    def __init__(self, settings: OidcSettings, callback: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`callback` is the URL of the console that the provider sends browsers back to."""
        self.settings = settings
        self._callback = callback
        self._clock = clock
        self._context = settings.context()
        self._lock = threading.Lock()
        self._document: Document | None = None
        self._keys: TokenKeys | None = None
        self._document_s = self._keys_s = 0.0
        self._rules = _IdTokenRules(
            expected_issuer=settings.issuer,
            expected_audiences=(settings.client_id,),
            subject_claim=settings.user_claim,
        )

    def authorization_url(self, state: str, nonce: str, challenge: str) -> str:
        """Return where a browser logs in. Raises Away."""
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self._callback,
            "scope": self.settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._discovered().authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def check_issuer(self, named: str | None) -> None:
        """Check who an answer to the callback names as its issuer (RFC 9207). Raises Refused and Away."""
        required = self._discovered().authorization_response_iss_parameter_supported
        if (named is not None or required) and named != self.settings.issuer:
            raise Refused("the answer is not of this issuer")

    def exchange(self, code: str, verifier: str, nonce: str) -> tuple[Tokens, Identity]:
        """Return the tokens for a code, and who has logged in. Raises Refused and Away."""
        answer = self._asked(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._callback,
                "code_verifier": verifier,
            }
        )
        return self._tokens(answer, None), self._identity(answer.id_token, nonce)

    def refreshed(self, refresh: Password) -> Tokens:
        """Return new tokens. Raises Refused and Away."""
        return self._tokens(self._asked({"grant_type": "refresh_token", "refresh_token": refresh.text}), refresh)

    # --- the provider's document and keys ----------------------------------------------------------------------------

    def _discovered(self) -> Document:
        with self._lock:
            if self._document is not None and self._clock() - self._document_s < DISCOVERED_S_MAX:
                return self._document
            url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = _decoded(self._fetched(_get(url), ANSWER_BYTES_MAX), Document, "its document")
            if found.issuer != self.settings.issuer:
                raise Away(f"its document names another issuer: {printable(found.issuer[:_SAID_LENGTH_MAX])}")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not is_safe_url(getattr(found, name), self.settings.issuer):
                    raise Away(f"its document has a {name} that is not https")
            self._document, self._document_s = found, self._clock()
            return found

    def _key_of(self, token: SignedToken) -> TokenKey:
        """Return the key that signed the token, after another look if it is not known. Raises Away and InvalidToken."""
        url = self._discovered().jwks_uri
        with self._lock:
            now_s = self._clock()
            age_s = now_s - self._keys_s
            found = None if self._keys is None else self._find(token)
            if self._keys is None or age_s >= (DISCOVERED_S_MAX if found is not None else UNKNOWN_KEY_PAUSE_S):
                try:
                    self._keys, self._keys_s = (
                        read_keys(self._fetched(_get(url), KEY_SET_BYTES_MAX)),
                        now_s,
                    )
                except KeysUnavailable as error:
                    raise Away(f"its keys cannot be used: {error}") from None
                found = self._find(token)
        if found is None:
            raise unknown_key(token)
        return found

    def _find(self, token: SignedToken) -> TokenKey | None:
        assert self._keys is not None
        return self._keys.find(token.key_id, token.key_kind, token.algorithm)

    def _fetched(self, request: HttpRequest, bytes_max: int) -> bytes:
        try:
            return fetched(request, bytes_max, self._context)
        except NotFetched as error:
            raise Away(str(error)) from error

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _asked(self, fields: dict[str, str]) -> _Answer:
        settings, document = self.settings, self._discovered()
        headers = {**_JSON, "Content-Type": "application/x-www-form-urlencoded"}
        secret = settings.client_secret
        if secret is not None and "client_secret_basic" in document.token_endpoint_auth_methods_supported:
            pair = f"{quote(settings.client_id, safe='')}:{quote(secret.text, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            fields |= {"client_id": settings.client_id}
            fields |= {} if secret is None else {"client_secret": secret.text}
        request = HttpRequest(url=document.token_endpoint, headers=headers, body=urlencode(fields).encode())
        try:
            return _decoded(self._fetched(request, ANSWER_BYTES_MAX), _Answer, "its tokens")
        except Away as away:
            if isinstance(away.__cause__, ErrorStatus) and away.__cause__.status in (400, 401):
                raise Refused(_said(away.__cause__.body)) from None
            raise

    def _tokens(self, answer: _Answer, before: Password | None) -> Tokens:
        if answer.token_type.lower() != "bearer" or not _SENDABLE.fullmatch(answer.access_token):
            raise Away("its access token cannot go to brokers: it is no bearer token of RFC 7628")
        return Tokens(
            access=Password(answer.access_token),
            # A provider that does not rotate them sends none.
            refresh=Password(answer.refresh_token) if answer.refresh_token else before,
            lifetime_s=_lifetime_s(answer),
        )

    def _identity(self, text: str, nonce: str) -> Identity:
        try:
            token = read_token(text)
            claims = valid_claims(token, self._key_of(token), self._rules, int(time.time()))
            if claims.get("nonce") != nonce:
                raise InvalidToken("the token is of another login: its nonce differs")
            several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
            if claims.get("azp", None if several else self.settings.client_id) != self.settings.client_id:
                raise InvalidToken("the token was made for another client: azp differs")
            return Identity(user=user_of(claims, self.settings.user_claim), claims=claims)
        except InvalidToken as invalid:
            raise Refused(f"its ID token is not valid: {invalid.reason}") from None


def _get(url: str) -> HttpRequest:
    return HttpRequest(url=url, headers=_JSON)


def _decoded(data: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Away(f"{what} cannot be read") from None


def _lifetime_s(answer: _Answer) -> float | None:
    """Return for how long the access token is valid: as the answer says, or else the token, for brokers to verify."""
    try:
        if answer.expires_in is not None:
            return max(0.0, float(answer.expires_in))
        payload = answer.access_token.split(".")[1]
        expiry = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Expiry)
        return max(0.0, expiry.exp - time.time())
    except (ValueError, IndexError, RecursionError, msgspec.DecodeError):
        return None


def _said(body: bytes) -> str:
    """Return what an error of the provider says, for people."""
    try:
        error = msgspec.json.decode(body, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "it says no reason"
    return said_of(error.error, error.error_description)


def said_of(error: str, description: str) -> str:
    """Return an error of OAuth and its description as one clause."""
    parts = [printable(each[:_SAID_LENGTH_MAX]) for each in (error, description) if each]
    return ": ".join(parts) or "it says no reason"
