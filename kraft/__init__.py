"""Kraft: a message broker without ZooKeeper, installed with pip."""

import os

__version__ = "0.1.0"

# Read by gRPC when it is first imported, so they are set before any module of ours can do that.
#
# With its handlers for forks, a process that starts another one while calls are under way may lose both: starting
# Spark's Java after using the client failed with a bad file descriptor. Our clients refuse to be used across a fork
# anyway, and a child that becomes another program needs no handlers.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Kraft's own errors and logs report connections that end; gRPC's messages would go to standard error.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
