"""The metadata quorum: a replicated log of opaque payloads, with one leader at a time.

`port` is what the rest of the system sees; it also says where the code has index and term, and where offset and epoch.
Behind it stand PySyncObj for elections and replication, and for all that must not be left to it: our own synced
journal, our own transport over gRPC, and filters between the two.
"""

import socket

_inet_ntop = socket.inet_ntop

import pysyncobj as _  # noqa: E402, F401

# On every system PySyncObj replaces this function by one that works on Windows alone. Undone here, before anybody asks
# for a peer's address: whoever imports a module of this package runs these lines first.
socket.inet_ntop = _inet_ntop
