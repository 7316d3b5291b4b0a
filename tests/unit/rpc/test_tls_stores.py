from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.rpc.tls_stores import LOOK_S, WatchedStores
from kraft.tls.store_files import StoreError
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile
from tests.support.certificates import Authority, Stores


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def settings(stores: Stores) -> TlsSettings:
    return TlsSettings(key_store=KeyStoreFile(path=stores.keystore), trust_store=TrustStoreFile(path=stores.truststore))


def test_stores_are_read_again_when_a_file_has_changed(tmp_path: Path) -> None:
    clock, first = Clock(), Authority(tmp_path, "first").certify("node")
    second = Authority(tmp_path, "second").certify("node")
    watched = WatchedStores(settings(first), clock)
    before = watched.latest
    os.replace(second.keystore, first.keystore)
    assert watched.look() == 0
    clock.now_s += LOOK_S
    assert watched.look() == 1
    assert watched.latest.key != before.key
    assert watched.latest.trusted == before.trusted
    clock.now_s += LOOK_S
    assert watched.look() == 1


def test_stores_that_cannot_be_used_are_logged_once_and_those_before_stay(tmp_path: Path) -> None:
    clock, stores = Clock(), Authority(tmp_path).certify("node")
    watched = WatchedStores(settings(stores), clock)
    before, kept = watched.latest, stores.keystore.read_bytes()
    stores.keystore.write_bytes(b"half of a key")
    with capture_logs() as logs:
        for _ in range(3):
            clock.now_s += LOOK_S
            assert watched.look() == 0
    assert [line["event"] for line in logs] == ["certificates not renewed"]
    assert watched.latest is before
    stores.keystore.write_bytes(kept + b"\n")
    clock.now_s += LOOK_S
    assert watched.look() == 1


def test_a_file_that_is_being_replaced_may_be_missing_for_a_moment(tmp_path: Path) -> None:
    clock, stores = Clock(), Authority(tmp_path).certify("node")
    watched = WatchedStores(settings(stores), clock)
    kept = stores.keystore.read_bytes()
    stores.keystore.unlink()
    clock.now_s += LOOK_S
    assert watched.look() == 0
    stores.keystore.touch(mode=0o600)
    stores.keystore.write_bytes(kept)
    clock.now_s += LOOK_S
    assert watched.look() == 1


def test_stores_that_cannot_be_used_at_the_start_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"ssl\.keystore\.location: cannot read"):
        WatchedStores(TlsSettings(key_store=KeyStoreFile(path=tmp_path / "none.pem")), Clock())
