"""Kafka's wire protocol: bytes to values and back, without a socket in sight.

`schema/` declares every message, one file for each API: a class a message, not one a version. From a declaration,
`decoder.py` and `encoder.py` write Python source for one version when that version is first met, and `codec.py` runs
it. `frame.py` knows what stands around a message on a connection, `api_versions.py` what clients are told about.
"""
