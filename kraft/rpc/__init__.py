"""gRPC on both ends: services decode messages into values and call handlers, peers send values as calls.

Protobuf types do not leave this package.
"""
