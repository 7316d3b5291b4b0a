"""Pages from what a cluster says to HTML: nothing that a stranger named becomes a part of the page itself."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from kraft.client import AuthenticationFailed, ErrorCode, KraftError, Refusal
from kraft.console import asking, rendering
from kraft.console.asking import Asked, Paged, Panel, Wanted, problem_of, wanted
from kraft.console.config import ClusterConfig
from kraft.console.forms import Form
from kraft.console.pages import overview
from kraft.console.pages.brokers import Broker, Brokers, DirectoriesOfBroker, Directory
from kraft.console.pages.overview import Overview, health_of
from kraft.console.pages.produce import Produce, Producing
from kraft.console.state import State
from kraft.health.findings import findings
from tests.support.cluster_facts import broker, facts, partition
from tests.support.console_pages import EVIL, assert_shown_as_text, html_of


def paged(row: Any) -> Paged[Any]:
    return Paged(rows=[row], found=1, total=1, page=1, pages=2, search=EVIL, sort="name", descending=False)


def failed() -> Panel[Any]:
    return Panel(problem=EVIL, code="NO_ANSWER")


def views() -> dict[str, list[Any]]:
    """Return views in which each text is an attack, by template."""
    one = Broker(broker_id=1, addresses=[EVIL], rack=EVIL, state=EVIL, leaders=1, replicas=1, in_sync=1)
    directory = Directory(path=EVIL, problem=EVIL, replicas=1, size_bytes=1, total_bytes=-1, usable_bytes=-1)
    directories = DirectoriesOfBroker(broker_id=1, problem=EVIL, directories=[directory])
    health = health_of(facts(partitions=[partition(isr=(1,))], unknown={EVIL: EVIL}), 0)
    return {
        "overview.html": [
            Overview(health=Panel(value=health), sizes=failed()),
            Overview(health=failed(), sizes=failed()),
        ],
        "brokers.html": [
            Brokers(brokers=Panel(value=[one]), directories=Panel(value=[directories])),
            Brokers(brokers=failed(), directories=failed()),
        ],
        "produce.html": [
            Produce(
                name=EVIL,
                topic=Panel(value=Producing(topic=EVIL, partitions=1, internal=True)),
                once=EVIL,
                partition=0,
                offset=1,
            ),
            Produce(name=EVIL, topic=failed(), once=EVIL, partition=None, offset=None),
        ],
    }


@pytest.mark.parametrize("template", views())
def test_what_strangers_named_is_shown_as_text(template: str) -> None:
    for view in views()[template]:
        assert_shown_as_text(template, view)


def test_brokers_that_were_not_asked_for_their_directories_are_named() -> None:
    one, two = (
        Broker(broker_id=each, addresses=[], rack="", state=state, leaders=1, replicas=1, in_sync=1)
        for each, state in ((1, "in service"), (2, "not in service"))
    )
    directories = Panel(value=[DirectoriesOfBroker(broker_id=1, problem="", directories=[])])
    note = "Without those of broker {}, which is not in service."
    page = html_of("brokers.html", Brokers(brokers=Panel(value=[one, two]), directories=directories))
    assert note.format(2) in page
    assert note.format(1) not in page


def test_the_overview_has_the_very_findings_of_the_command() -> None:
    given = facts(brokers=[broker(1), broker(2, fenced=True)], partitions=[partition(isr=(1, 3))])
    health = health_of(given, 0)
    assert health.findings == findings(given)
    assert (health.state, health.under_replicated, health.brokers_in_service) == ("degraded", 1, 1)
    assert [each.node_id for each in health.restarts] == [1, 2, 3]


# --- panels --------------------------------------------------------------------------------------------------------


def asked(threads: ThreadPoolExecutor) -> Asked:
    cluster = ClusterConfig(name="prod", bootstrap_servers="b:1")
    nothing: Any = None
    return Asked(
        cluster=cluster, user="", client=nothing, threads=threads, state=State(), path={}, query={}, form=Form()
    )


@pytest.mark.parametrize(
    ("code", "security", "is_over"),
    [
        (ErrorCode.SASL_AUTHENTICATION_FAILED, {"security.protocol": "SASL_SSL"}, True),
        # Listener and console do not fit: to log in again is in vain.
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, {"security.protocol": "SASL_SSL"}, False),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, {}, False),
    ],
)
def test_a_refused_password_ends_the_login(code: ErrorCode, security: dict[str, str], is_over: bool) -> None:
    def refused() -> None:
        raise AuthenticationFailed(code, "no")

    with ThreadPoolExecutor() as threads:
        cluster = ClusterConfig(name="prod", bootstrap_servers="b:1", security=security)
        request = structs.replace(asked(threads), cluster=cluster)
        if is_over:
            with pytest.raises(asking.LoginOver):
                asyncio.run(request.panel(refused))
            with pytest.raises(asking.LoginOver):
                asyncio.run(request.change(refused))
            with pytest.raises(asking.LoginOver):
                request.let_in({1: [], 2: AuthenticationFailed(code, "no")})
        else:
            assert asyncio.run(request.panel(refused)).code == code.name
            outcomes = {1: AuthenticationFailed(code, "no")}
            assert request.let_in(outcomes) is outcomes


def test_a_refused_password_is_no_trouble_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to one broker goes on after the password was changed, and the others refuse new ones."""
    refused = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "no")
    monkeypatch.setattr(overview, "gather", lambda *_, **__: facts(directories={1: [], 2: refused, 3: refused}))
    with ThreadPoolExecutor() as threads:
        security = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
        cluster = ClusterConfig(name="prod", bootstrap_servers="b:1", security=security)
        client = SimpleNamespace(admin=None, elsewhere=None)
        request = structs.replace(asked(threads), cluster=cluster, client=client)
        with pytest.raises(asking.LoginOver):
            asyncio.run(overview.overview(request))


def test_a_panel_whose_broker_hangs_says_so_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PANEL_S", 0.1)
    hangs = threading.Event()

    async def both(threads: ThreadPoolExecutor) -> tuple[Panel[bool], Panel[int]]:
        request = asked(threads)
        return await asyncio.gather(request.panel(lambda: hangs.wait(20)), request.panel(lambda: 7))

    with ThreadPoolExecutor() as threads:
        begun = time.monotonic()
        try:
            silent, answered = asyncio.run(both(threads))
            assert time.monotonic() - begun < 10
        finally:
            hangs.set()
    assert (silent.value, silent.problem, silent.status) == (None, "the cluster did not answer within 0.1 s", 504)
    assert answered.value == 7


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic a"),
            403,
            "TOPIC_AUTHORIZATION_FAILED: topic a; ask an admin",
        ),
        (Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic a"), 404, "no topic a"),
        (Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "no group a"), 404, "no group a"),
        (Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "none"), 502, "none"),
        (KraftError("nobody answers"), 504, "nobody answers"),
        (AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong"), 502, "wrong; log out, and log in again"),
        (
            AuthenticationFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "it has TLS", lacks_settings=True),
            502,
            "it has TLS; such keys stand in the console's file as cluster.NAME.",
        ),
    ],
)
def test_an_error_of_the_cluster_is_a_sentence_and_a_status(error: KraftError, status: int, text: str) -> None:
    panel: Panel[Any] = problem_of(error)
    assert panel.status == status
    assert text in panel.problem


def test_a_listener_of_another_protocol_is_not_mended_by_a_login() -> None:
    misfit = AuthenticationFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "it does not speak gRPC")
    panel: Panel[Any] = problem_of(misfit)
    assert panel.problem.endswith("it does not speak gRPC")


# --- tables --------------------------------------------------------------------------------------------------------


def test_a_table_of_ten_thousand_rows_is_paged() -> None:
    names = [f"topic-{number:05}" for number in range(10_000)]
    found = Wanted(page=50).shown(names, 10_000)
    assert (found.rows[0], found.rows[-1], found.pages) == ("topic-09800", "topic-09999", 50)
    assert Wanted(page=51).shown(names, 10_000).page == 50
    assert Wanted(descending=True).shown(names, 10_000).rows[0] == "topic-09999"
    assert Wanted().shown([], 0).pages == 1


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "1" * 30, "٣"])
def test_what_no_table_has_is_the_default(page: str) -> None:
    found = wanted({"page": page, "sort": "colour", "order": "sideways"}, ("name", "state"))
    assert (found.page, found.sort, found.descending) == (1, "name", False)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 days"),
        ("segment.ms", "5400000", "1.5 hours"),
        ("retention.ms", "-1", ""),
        ("flush.ms", str(2**63 - 1), "no limit"),
        ("segment.bytes", "1073741824", "1.0 GiB"),
        ("cleanup.policy", "delete", ""),
        ("x.ms", None, ""),
    ],
)
def test_times_and_sizes_of_configs_are_said_in_words(name: str, value: str | None, words: str) -> None:
    assert rendering.in_words(value, name) == words
