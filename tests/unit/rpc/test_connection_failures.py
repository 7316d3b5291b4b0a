from __future__ import annotations

import pytest

from kraft.rpc.connection_failures import connection_failure, handshake_failure, is_not_grpc, is_rejected_handshake

CONNECTING = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:9093: "
TLS = "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("details", "message"),
    [
        (
            f"{CONNECTING}{TLS}CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate: OK",
            "its certificate is not trusted by ssl.truststore.location (unable to get local issuer certificate)",
        ),
        (
            f"{CONNECTING}{TLS}CERTIFICATE_VERIFY_FAILED",
            "its certificate is not trusted by ssl.truststore.location (no reason given)",
        ),
        (
            f"{CONNECTING}Custom verification check failed: UNAUTHENTICATED: Hostname Verification Check failed.",
            "its certificate is not for the host name that was dialled",
        ),
        (
            f"{CONNECTING}{TLS}WRONG_VERSION_NUMBER: Invalid certificate verification context: OK",
            "it does not use TLS: compare listener.security.protocol.map of both nodes, or a client's settings",
        ),
        (
            f"{CONNECTING}Cannot check peer: missing selected ALPN property.",
            "it has TLS, but does not speak gRPC",
        ),
        (
            f"{CONNECTING}Socket closed",
            "it closed the connection during the handshake; it may expect TLS, or another certificate",
        ),
    ],
)
def test_a_failed_handshake_names_the_setting_to_compare(details: str, message: str) -> None:
    assert handshake_failure(details) == message
    assert connection_failure(details) == message


@pytest.mark.parametrize(
    ("details", "message"),
    [
        (f"{CONNECTING}Failed to connect to remote host: Connection refused", "connection refused; is a node running"),
        ("errors resolving nowhere:9094: [field:hostname lookup error: Domain name not found]", "unknown host"),
        ("Socket closed", "the connection was closed"),
        (f"{CONNECTING}Failed parsing HTTP/2 (Expected SETTINGS frame)", "it does not speak gRPC"),
        ("node 2 is starting or stopping", "node 2 is starting or stopping"),
        ("", "the connection failed"),
    ],
)
def test_other_failures_are_not_handshake_failures(details: str, message: str) -> None:
    assert handshake_failure(details) is None
    assert connection_failure(details).startswith(message)


def test_what_somebody_has_to_mend_is_told_from_what_may_pass() -> None:
    assert is_rejected_handshake(f"{CONNECTING}{TLS}WRONG_VERSION_NUMBER: Invalid certificate verification context: OK")
    assert not is_rejected_handshake(f"{CONNECTING}Socket closed")
    assert not is_rejected_handshake(f"{CONNECTING}Failed to connect to remote host: Connection refused")


def test_a_peer_that_ends_a_new_connection_does_not_speak_grpc() -> None:
    assert is_not_grpc(f"{CONNECTING}Socket closed")
    assert is_not_grpc(f"{CONNECTING}recvmsg:Connection reset by peer (104)")
    assert not is_not_grpc(f"{CONNECTING}Failed to connect to remote host: Connection refused")
    assert not is_not_grpc(f"{CONNECTING}connection attempt timed out before receiving SETTINGS frame"), "it may hang"
    assert not is_not_grpc("Socket closed"), "the end of a connection that was in use"
