"""Codec of Kafka's wire protocol: bytes to values and back, without sockets.

`schema/` declares every message, one file for each API, one class for all versions of a message. From a declaration,
`decoder.py` and `encoder.py` generate Python source for a version when it is first used, and `codec.py` runs it.
`frame.py` has sizes and headers of requests and responses, `api_versions.py` the versions that clients see.
"""
