from __future__ import annotations

from pathlib import Path

import pytest

from kraft.server.config.listener_security import ListenerSecurity
from kraft.server.config.served import not_served
from kraft.server.config.values import GRPC, SecurityProtocol
from kraft.tls.stores import ClientAuth, KeyStoreFile, TlsSettings, TlsVersion

KEY_STORE = KeyStoreFile(path=Path("node.pem"))


def on_grpc(tls: TlsSettings) -> str | None:
    return not_served(GRPC, ListenerSecurity(protocol=SecurityProtocol.SSL, tls=tls))


@pytest.mark.parametrize("client_auth", [ClientAuth.NONE, ClientAuth.REQUIRED])
def test_grpc_has_tls_with_certificates_of_clients_or_without(client_auth: ClientAuth) -> None:
    assert on_grpc(TlsSettings(key_store=KEY_STORE, client_auth=client_auth)) is None


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (
            TlsSettings(key_store=KEY_STORE, client_auth=ClientAuth.REQUESTED),
            ("ssl.client.auth=requested is not possible", "listener.name.grpc.ssl.client.auth to required or none"),
        ),
        (
            TlsSettings(key_store=KEY_STORE, protocols=(TlsVersion.TLS_1_3,)),
            ("ssl.enabled.protocols", "listener.name.grpc.ssl.enabled.protocols=TLSv1.2,TLSv1.3"),
        ),
        (
            TlsSettings(key_store=KEY_STORE, cipher_suites=("TLS_AES_256_GCM_SHA384",)),
            ("listener.name.grpc.ssl.cipher",),
        ),
    ],
)
def test_what_grpc_cannot_do_is_refused_with_the_reason_and_the_remedy(
    tls: TlsSettings, words: tuple[str, ...]
) -> None:
    reason = on_grpc(tls) or ""
    for word in words:
        assert word in reason
