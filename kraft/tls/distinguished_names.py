"""The name of a certificate's owner, written as Java does: `CN=alice,OU=Sales,O=Example`. Source: RFC 2253.

Kafka's ACLs and `ssl.principal.mapping.rules` have names in this form, so it has to be the same to the letter.
"""

from __future__ import annotations

from typing import Any, Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that have a keyword in Java; another one is written as its number, with its value in hexadecimal."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')


class UnreadableCertificate(Exception):
    """A certificate that OpenSSL accepted cannot be read. The text is one line."""


def owner_of(certificate: bytes) -> str:
    """Return the distinguished name of the owner. `certificate` is in DER. Raises UnreadableCertificate."""
    # Imported where it is used: a node without TLS does without.
    from cryptography import x509

    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError as error:
        raise UnreadableCertificate(f"the name in its certificate cannot be read: {error}") from None
    return ",".join("+".join(map(_attribute, each)) for each in reversed(subject.rdns))


def _attribute(attribute: Any) -> str:
    number = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(number)
    value = attribute.value
    if keyword is None or not isinstance(value, str):
        encoded = value if isinstance(value, bytes) else value.encode()
        return f"{number}=#{_der(attribute._type.value, encoded).hex()}"
    return f"{keyword}={_escaped(value)}"


def _escaped(value: str) -> str:
    begin = len(value) - len(value.lstrip(" \r"))
    end = max(len(value.rstrip(" \r")), begin)
    middle = "".join("\\" + each if each in _ESCAPED else each for each in value[begin:end]).replace("\0", "\\00")
    return "".join("\\" + each for each in value[:begin]) + middle + "".join("\\" + each for each in value[end:])


def _der(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + content
