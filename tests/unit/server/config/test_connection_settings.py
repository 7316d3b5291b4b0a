from __future__ import annotations

from kraft.quotas.precedence import Client
from tests.support.quotas import subject
from tests.unit.server.config.files import COMBINED, Load, warned_of

ALICE = Client("alice", "loader")
WINDOWS = """
quota.window.num=4
quota.window.size.seconds=2
controller.quota.window.num=2
controller.quota.window.size.seconds=3
"""


def test_windows_of_quotas_say_how_much_passes_at_once(load_text: Load) -> None:
    config = load_text(COMBINED + WINDOWS)
    assert warned_of(config) == []
    for windows, burst, mutations in ((config.quota_windows, 600, 6), (load_text(COMBINED).quota_windows, 1_000, 11)):
        quotas = windows.client_quotas()
        quotas.reconfigure({subject({"user": "alice"}): {"producer_byte_rate": 100.0, "controller_mutation_rate": 1.0}})
        assert quotas.produced(ALICE, burst, 0) == 0
        assert quotas.produced(ALICE, 100, 0) == 1_000
        assert quotas.mutated(ALICE, mutations, 0) == 0
        assert quotas.mutated(ALICE, 1, 0) == 1_000
