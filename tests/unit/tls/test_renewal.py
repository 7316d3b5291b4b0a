from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.tls.contexts import server_context
from kraft.tls.renewal import RenewedContext
from kraft.tls.store_files import StoreError
from kraft.tls.stores import KeyStoreFile, TlsSettings
from tests.support.certificates import Authority

pytestmark = pytest.mark.real_time


async def test_a_replaced_file_is_read_and_those_who_connect_then_meet_it(tmp_path: Path) -> None:
    authority, keystore = Authority(tmp_path), tmp_path / "node.pem"
    os.replace(authority.certify("first").keystore, keystore)
    context = RenewedContext("SSL", TlsSettings(key_store=KeyStoreFile(path=keystore)), server_context)
    first = context.current()
    await context.check()
    assert context.current() is first
    os.replace(authority.certify("second").keystore, keystore)
    with capture_logs() as lines:
        await context.check()
    assert context.current().certificate != first.certificate
    assert [(line["event"], line["listener"]) for line in lines] == [("certificates renewed", "SSL")]


async def test_a_link_that_leads_to_another_file_is_a_change(tmp_path: Path) -> None:
    authority, link = Authority(tmp_path), tmp_path / "current.pem"
    link.symlink_to(authority.certify("first").keystore)
    context = RenewedContext("SSL", TlsSettings(key_store=KeyStoreFile(path=link)), server_context)
    first = context.current()
    link.unlink()
    link.symlink_to(authority.certify("second").keystore)
    await context.check()
    assert context.current().certificate != first.certificate


async def test_a_change_that_cannot_be_used_is_logged_once_and_changes_nothing(tmp_path: Path) -> None:
    authority, keystore = Authority(tmp_path), tmp_path / "node.pem"
    os.replace(authority.certify("first").keystore, keystore)
    context = RenewedContext("SSL", TlsSettings(key_store=KeyStoreFile(path=keystore)), server_context)
    first = context.current()
    keystore.write_text("half a file")
    with capture_logs() as lines:
        await context.check()
        await context.check()
    assert context.current() is first
    assert [line["event"] for line in lines] == ["certificates not renewed"]
    keystore.unlink()
    await context.check()
    os.replace(authority.certify("second").keystore, keystore)
    await context.check()
    assert context.current().certificate != first.certificate


async def test_text_in_the_settings_is_never_checked() -> None:
    settings = TlsSettings(key_store=None)
    await RenewedContext("SSL", settings, lambda _: "made").watch()


async def test_the_first_context_has_to_be_usable(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        RenewedContext("SSL", TlsSettings(key_store=KeyStoreFile(path=tmp_path / "none.pem")), server_context)
