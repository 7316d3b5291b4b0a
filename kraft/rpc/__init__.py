"""gRPC, both ends: services turn messages into values and call a handler, peers turn values into calls.

Protobuf types stay in here.
"""
