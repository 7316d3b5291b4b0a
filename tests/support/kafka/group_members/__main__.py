"""`python -m tests.support.kafka.group_members CLIENT ...`: one member of a group; prints its events (`Journal`)."""

from __future__ import annotations

import importlib

from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import parsed, stopping

client, options = parsed()
importlib.import_module(f"tests.support.kafka.group_members.{client}_member").run(options, Journal(), stopping())
