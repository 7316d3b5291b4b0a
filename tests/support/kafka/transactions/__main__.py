"""`python -m tests.support.kafka.transactions CLIENT ...`: one worker; prints its events (`Journal`)."""

from __future__ import annotations

import importlib
import os
import select
import sys
import threading

from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import stopping
from tests.support.kafka.transactions.options import ENDED, parsed
from tests.support.kafka.transactions.work import Ended, Worker


def end_with_reader() -> None:
    """End this process when nobody reads its output any more, as when the test was killed."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    poll.poll()
    os._exit(1)


threading.Thread(target=end_with_reader, daemon=True).start()
client, options = parsed()
journal, has_to_stop = Journal(), stopping()
connected = importlib.import_module(f"tests.support.kafka.transactions.{client}_client").connect(options, journal)
try:
    Worker(options, connected, journal).run(has_to_stop)
except Ended as ended:
    journal.failed("producer", ended)
    sys.stdout.flush()
    # As a program that crashes: its consumer does not leave the group.
    os._exit(ENDED)
