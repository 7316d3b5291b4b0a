"""Kraft: a message broker without ZooKeeper, installed with pip."""

__version__ = "0.1.0"
