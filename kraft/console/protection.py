"""What protects the pages: headers, the check of Host and Origin, tokens of forms, and the cookies' names."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from kraft.model.addresses import counted_address

FORM_BYTES_MAX: Final = 16 * 1024

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
"""Only the console's own files are scripts, whatever text a page shows, and nothing is loaded from elsewhere."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers hide the origin of forms as well.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

OVER_TLS: Final[Mapping[str, str]] = {"Strict-Transport-Security": "max-age=31536000"}


def cookie_name(purpose: str, is_secure: bool) -> str:
    """Return the name of a cookie. Browsers let no other host or path set one whose name begins with __Host-."""
    return f"{'__Host-' if is_secure else ''}kraft-{purpose}"


def is_known_host(host: str | None, allowed: Collection[str]) -> bool:
    """Return whether the request names the console as its file does, and not by a name that leads here by rebinding."""
    return host is not None and host.lower() in allowed


def is_same_origin(origin: str | None, fetch_site: str | None, own: Collection[str]) -> bool:
    """Return whether a form was sent from one of our pages, as far as the browser says so."""
    if fetch_site is not None and fetch_site not in ("same-origin", "none"):
        return False
    return origin is None or origin.lower() in own


def is_shown_as_page(fetch_site: str | None, fetch_mode: str | None, fetch_dest: str | None) -> bool:
    """Return whether a request of another site's page only leads here, as a link does, as far as the browser says so.

    Whatever else it asks for it may not read; but the console would ask the cluster for it all the same.
    """
    is_ours = fetch_site in (None, "same-origin", "none")
    return is_ours or (fetch_mode in (None, "navigate") and fetch_dest in (None, "document"))


def client_address(peer: str, forwarded: Sequence[str], trusted: Collection[IPv4Network | IPv6Network]) -> str:
    """Return the address of who asks: of the connection, or what proxies that are trusted say of theirs.

    Each proxy adds an address at the end of X-Forwarded-For; what stands before the last one that is trusted, anybody
    can write. Networks of IPv6 count as one address.
    """
    address = peer
    for each in reversed([each.strip() for line in forwarded for each in line.split(",")]):
        if not is_in_networks(address, trusted) or not _is_address(each):
            break
        address = each
    return counted_address(address)


def is_in_networks(address: str, networks: Collection[IPv4Network | IPv6Network]) -> bool:
    """Return whether this is an address, and in one of the networks."""
    return _is_address(address) and any(ip_address(address) in each for each in networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def signature(key: bytes, purpose: str, text: str) -> str:
    """Return what shows that the console wrote the text, which is in a cookie, for this purpose and no other."""
    return hmac.new(key, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def safe_next(path: str) -> str:
    """Return where a login leads to: a page of ours, whatever the form says."""
    is_ours = path.startswith("/clusters/") and not any(each in path for each in ("\\", "//", "\n", "\r"))
    return path if is_ours and path.isascii() and path.isprintable() else "/"
