"""The expected names are what Java's `X500Principal.getName()` returns for the same certificates."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kraft.tls.distinguished_names import UnreadableCertificate, owner_of

Attributes = Sequence[tuple[x509.ObjectIdentifier, str]]


def _certificate(owner: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(owner, owner, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (
            [
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.STATE_OR_PROVINCE_NAME, "NRW"),
                (NameOID.LOCALITY_NAME, "Bonn"),
                (NameOID.ORGANIZATION_NAME, "Ex, Inc"),
                (NameOID.ORGANIZATIONAL_UNIT_NAME, "Sales"),
                (NameOID.COMMON_NAME, "alice"),
            ],
            r"CN=alice,OU=Sales,O=Ex\, Inc,L=Bonn,ST=NRW,C=DE",
        ),
        (
            [(NameOID.DOMAIN_COMPONENT, "example"), (NameOID.USER_ID, "u1"), (NameOID.COMMON_NAME, "Zoë")],
            "CN=Zoë,UID=u1,DC=example",
        ),
        (
            [(NameOID.COMMON_NAME, ' #lead;"q"<x>=y+z\\ # ')],
            'CN=\\ \\#lead\\;\\"q\\"\\<x\\>\\=y\\+z\\\\ \\#\\ ',
        ),
        ([(NameOID.EMAIL_ADDRESS, "zoe@example.com")], "1.2.840.113549.1.9.1=#160f7a6f65406578616d706c652e636f6d"),
        ([(NameOID.SERIAL_NUMBER, "42"), (NameOID.TITLE, "Dr.")], "2.5.4.12=#0c0344722e,2.5.4.5=#13023432"),
        ([(NameOID.COMMON_NAME, "  ")], "CN=\\ \\ "),
    ],
)
def test_a_name_is_written_as_java_does(attributes: Attributes, name: str) -> None:
    owner = x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])
    assert owner_of(_certificate(owner)) == name


def test_attributes_of_one_level_are_joined_by_a_plus() -> None:
    level = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "b")]
    )
    assert owner_of(_certificate(x509.Name([level]))) == "CN=a+OU=b"


def test_a_long_value_has_its_length_in_several_bytes() -> None:
    owner = x509.Name([x509.NameAttribute(NameOID.TITLE, "x" * 300, _validate=False)])
    assert owner_of(_certificate(owner)).startswith("2.5.4.12=#0c82012c7878")


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(UnreadableCertificate):
        owner_of(b"no certificate")
