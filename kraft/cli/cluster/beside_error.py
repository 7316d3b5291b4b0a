"""What is wrong with the cluster, told below the error of a command that got no answer in time."""

from __future__ import annotations

from typing import Final

from kraft.cli.cluster.facts import gather
from kraft.client import DeliveryTimeout, KraftError, NoRetriesLeft, Refusal
from kraft.client.cluster.any_broker import NoBrokerReachable, is_transient
from kraft.client.model.errors import NoActiveController
from kraft.client.model.settings import parse_addresses
from kraft.health.findings import Finding, Severity, findings
from kraft.rpc.peers import Unreachable

LOOK_MS: Final = 3_000
"""Longest wait for each answer: the command has waited long enough."""

TOLD_MAX: Final = 5
"""Findings that are told; `kraft cluster health` shows all."""


def told_beside(error: KraftError, bootstrap_server: str) -> list[str]:
    """Return lines about the cluster if its state may be the reason for the error; none if nothing is wrong."""
    if not _may_be_told_more(error, bootstrap_server):
        return []
    try:
        found = findings(gather(bootstrap_server, LOOK_MS))
    except Exception as unknown:  # noqa: BLE001  The error of the command is told in any case.
        return [f"The state of the cluster could not be found out: {unknown}"]
    wrong = [each for each in found if each.severity is not Severity.UNKNOWN]
    lines = [_line(each) for each in wrong[:TOLD_MAX]]
    return [*lines, "More: kraft cluster health"] if len(wrong) > TOLD_MAX else lines


def _line(finding: Finding) -> str:
    remedy = f"; to do: {finding.remedy}" if finding.remedy else ""
    return f"{finding.severity.upper()}: {finding.what}{remedy}"


def _may_be_told_more(error: KraftError, bootstrap_server: str) -> bool:
    """True if what was asked was not answered, or refused only for now, and somebody may say why."""
    match error:
        case NoActiveController():
            # It says all that is known.
            return False
        case NoBrokerReachable():
            return not set(error.reasons) <= set(parse_addresses(bootstrap_server))
        case Unreachable() | DeliveryTimeout() | NoRetriesLeft():
            return True
        case Refusal():
            return is_transient(error.error_code)
        case _:
            return False
