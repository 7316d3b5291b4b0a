from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kraft.model.password import Password
from kraft.tls import authority
from kraft.tls.expiry import AGAIN_AFTER, SOON, ExpiryReminders, StoredCertificate, at, stored_certificates
from kraft.tls.store_files import StoreError
from kraft.tls.stores import KeyStoreFile, KeyStoreText, TlsSettings, TrustStoreFile, TrustStoreText

END = datetime(2027, 3, 1, 12, tzinfo=UTC)
OWN = StoredCertificate(place="node.pem", subject="CN=node", expires=END, is_trusted=False)
CA = StoredCertificate(place="ca.pem", subject="CN=authority", expires=END + timedelta(days=300), is_trusted=True)
MINUTE = timedelta(minutes=1)


def due(reminders: ExpiryReminders, now: datetime) -> list[tuple[str, int]]:
    return [(each.certificate.subject, each.days_left) for each in reminders.due([OWN, CA], now)]


def test_nothing_is_said_before_the_last_thirty_days() -> None:
    assert due(ExpiryReminders(), END - SOON - MINUTE) == []
    assert due(ExpiryReminders(), END - SOON) == [("CN=node", 30)]


def test_a_reminder_comes_once_a_day_until_it_expires_and_then_at_once() -> None:
    reminders, began = ExpiryReminders(), END - timedelta(days=2, hours=6)
    assert due(reminders, began) == [("CN=node", 2)]
    assert due(reminders, began + AGAIN_AFTER - MINUTE) == []
    assert due(reminders, began + AGAIN_AFTER) == [("CN=node", 1)]
    assert due(reminders, END) == [("CN=node", 0)]
    (expired,) = reminders.due([OWN], END + MINUTE)
    assert (expired.has_expired, expired.days_left) == (True, -1)
    assert due(reminders, END + MINUTE + MINUTE) == []
    assert due(reminders, END + MINUTE + AGAIN_AFTER) == [("CN=node", -2)]


def test_another_certificate_is_reported_at_once_and_one_that_was_replaced_no_more() -> None:
    reminders, now = ExpiryReminders(), END - timedelta(days=1)
    assert [each.certificate for each in reminders.due([OWN], now)] == [OWN]
    renewed = StoredCertificate(place="node.pem", subject="CN=node", expires=now + SOON / 2, is_trusted=False)
    assert [each.certificate for each in reminders.due([renewed], now + MINUTE)] == [renewed]
    assert [each.certificate for each in reminders.due([OWN], now + MINUTE)] == [OWN]


def test_a_clock_that_goes_back_repeats_nothing() -> None:
    reminders = ExpiryReminders()
    assert due(reminders, END - MINUTE) == [("CN=node", 0)]
    assert due(reminders, END - timedelta(days=20)) == []


def test_the_certificates_of_files_and_of_text_are_named_by_where_they_are(tmp_path: Path) -> None:
    now = at(1_800_000_000_000)
    key, own_key = authority.new_key(), authority.new_key()
    ca = authority.authority_certificate(key, "authority", now, timedelta(days=90))
    own = authority.node_certificate((key, ca), own_key, ["localhost"], now, timedelta(days=9))
    keystore, truststore = tmp_path / "node.pem", tmp_path / "ca.pem"
    keystore.touch(mode=0o600)
    keystore.write_bytes(own_key + own + ca)
    truststore.write_bytes(ca)
    in_files = TlsSettings(key_store=KeyStoreFile(path=keystore), trust_store=TrustStoreFile(path=truststore))
    in_text = TlsSettings(
        key_store=KeyStoreText(certificate_chain=own.decode(), key=Password(own_key.decode())),
        trust_store=TrustStoreText(certificates=ca.decode()),
    )
    found = [
        [(each.place, each.subject, (each.expires - now).days, each.is_trusted) for each in stored_certificates(stores)]
        for stores in (in_files, in_text)
    ]
    assert found == [
        [
            (str(keystore), "CN=localhost", 9, False),
            (str(keystore), "CN=authority", 90, False),
            (str(truststore), "CN=authority", 90, True),
        ],
        [
            ("ssl.keystore.certificate.chain", "CN=localhost", 9, False),
            ("ssl.truststore.certificates", "CN=authority", 90, True),
        ],
    ]
    keystore.unlink()
    with pytest.raises(StoreError):
        stored_certificates(in_files)
