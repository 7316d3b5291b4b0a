"""Hosts of clients, as descriptions of groups show them."""

from __future__ import annotations


def client_host(peer: str) -> str:
    """Return the host of an address such as `10.0.0.7:51000` or `[::1]:51000`, in Kafka's notation: `/10.0.0.7`."""
    host, _, _ = peer.rpartition(":")
    return "/" + (host or peer).strip("[]")
