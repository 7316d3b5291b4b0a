"""The metadata quorum: a replicated log of opaque payloads, with one leader at a time.

`port` is the interface that the rest of the system uses; it also says where the code has index and term, and where
offset and epoch. PySyncObj does elections and replication behind it. Our own code does what PySyncObj does not do
safely: the synced journal, the transport over gRPC, and filters between the two.
"""

import socket

_inet_ntop = socket.inet_ntop

import pysyncobj as _  # noqa: E402, F401

# PySyncObj replaces this function, on every system, by one that works only on Windows. It is restored here: importing
# any module of this package runs these lines first, before a peer's address is looked up.
socket.inet_ntop = _inet_ntop
