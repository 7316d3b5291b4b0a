"""Kafka's messages, one file for each API: what is written, in which versions, in which order.

The facts are those of Kafka 4.x (message definitions of the protocol guide), of the versions that this broker serves
or may come to serve. A range that a message does not reach is left out: where requests start at version 3, a field
since version 2 is simply there.
"""
