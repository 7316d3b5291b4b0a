"""Frees a closed transport without the garbage collector."""

from __future__ import annotations

import asyncio
from inspect import ismethod


def free_closed(transport: asyncio.BaseTransport) -> None:
    """Drop the references of a transport to itself, once its connection is lost.

    asyncio's transports keep their own bound methods, so only the garbage collector would free one, and what survives
    a full collection is exempt from it (`kraft.runtime.cycle_collector`).
    """
    tcp = transport.get_extra_info("tcp_transport")
    if tcp is not None:
        # Of a transport with TLS: it is that of the TCP connection which keeps itself.
        free_closed(tcp)
    attributes = vars(transport)
    for name, value in list(attributes.items()):
        if ismethod(value) and value.__self__ is transport:
            attributes[name] = None
