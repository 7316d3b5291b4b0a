"""Pages of users, ACLs, quotas, clients and the audit: what strangers wrote there is shown as text, and no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraft.access.rights import exactly
from kraft.client import ErrorCode, KraftError, Refusal
from kraft.console.asking import Paged, Panel, Wanted
from kraft.console.forms import Form, WrongInput, form_of
from kraft.console.pages.access import acl_changes, acls, audit, connected, quotas, quotas_in_effect, users
from kraft.console.pages.access.acl_fields import fields_of, filter_in, wanted_entries
from kraft.console.pages.access.acl_rows import AclRow
from kraft.console.pages.access.audit_lines import AuditLine, Sought, line_of, moment_ms
from kraft.console.pages.access.quota_rows import Quota, QuotaRow
from kraft.model.access import Operation
from kraft.model.clients import ClientConnection
from tests.support.acl_entries import DENY, PREFIXED, entry
from tests.support.console_pages import EVIL, assert_shown_as_text, html_of

ACL = AclRow(
    resource_type=EVIL,
    resource_name=EVIL,
    pattern_type=EVIL,
    principal=EVIL,
    host=EVIL,
    operation=EVIL,
    permission=EVIL,
)
QUOTA = QuotaRow(entity={"user": EVIL}, words=EVIL, quotas=[Quota(key=EVIL, value=1, words=EVIL)])


def paged(row: Any) -> Paged[Any]:
    return Paged(rows=[row], found=1, total=1, page=1, pages=2, search=EVIL, sort="name", descending=False)


def failed() -> Panel[Any]:
    return Panel(problem=EVIL, code="NO_ANSWER")


def of_users() -> dict[str, list[Any]]:
    hanging = users.Hanging(
        user=EVIL, mechanisms={EVIL: 1}, acls=[ACL], acls_count=2, quotas=[QUOTA], is_self=True, warning=EVIL
    )
    form = users.PasswordForm(user=EVIL, is_new=False, is_self=True, mechanisms={EVIL: 1})
    new = users.PasswordForm(user=EVIL, is_new=True, is_self=False, mechanisms={})
    row = users.UserRow(user=EVIL, mechanisms={EVIL: 4096})
    return {
        "users.html": [users.Users(users=Panel(value=paged(row))), users.Users(users=failed())],
        "user_password.html": [
            users.Password(password=each) for each in (Panel(value=form), Panel(value=new), failed())
        ],
        "user_delete.html": [
            users.Deletion(deletion=Panel(value=hanging)),
            users.Deletion(deletion=failed()),
        ],
    }


def of_quotas() -> dict[str, list[Any]]:
    field = quotas.Field(key=EVIL, help=EVIL, value=EVIL, words=EVIL)
    form = quotas.QuotasForm(entity={"user": EVIL}, words=EVIL, query={EVIL: EVIL}, fields=[field], shown=EVIL)
    holding = quotas_in_effect.HoldingQuota(key=EVIL, help=EVIL, value=1, words=EVIL, entity=EVIL, query={"user": EVIL})
    nobody = quotas.QuotasForm(entity={}, words="", query={}, fields=[], shown="")
    forms = [quotas.QuotasOfEntity(entity=each) for each in (Panel(value=form), Panel(value=nobody), failed())]
    return {
        "quotas.html": [quotas.Quotas(quotas=Panel(value=paged(QUOTA))), quotas.Quotas(quotas=failed())],
        "quotas_of.html": [
            quotas_in_effect.QuotasOfClient(client=EVIL, quotas=Panel(value=[holding])),
            quotas_in_effect.QuotasOfClient(client="", quotas=Panel(value=[])),
            quotas_in_effect.QuotasOfClient(client=EVIL, quotas=failed()),
        ],
        "quotas_set.html": forms,
        "quotas_remove.html": forms,
    }


def of_acls() -> dict[str, list[Any]]:
    row = acls.ListedAcl(acl=ACL, fields={EVIL: EVIL})
    filters = dict.fromkeys(("principal", "type", "resource", "operation", "permission", "host"), EVIL)
    rights_row = acls.RightsRow(
        resource_type=EVIL,
        resource_name=EVIL,
        pattern_type=EVIL,
        host=EVIL,
        everybody=False,
        allowed=[EVIL],
        implied=[EVIL],
        denied=[EVIL],
    )
    rights = acls.RightsOf(principal=EVIL, is_super_user=None, is_authorized=False, rows=[rights_row])
    answer = acls.Answer(allowed=True, question=EVIL, reason=EVIL, acl=ACL)
    change = acl_changes.Change(acl=ACL, effect=EVIL, is_new=True)
    preview: Any = acl_changes.Preview(changes=[change, change], warning=EVIL, shown=EVIL)
    of = [acls.AclsOf(rights=Panel(value=rights), answer=Panel(value=each)) for each in (answer, None)]
    return {
        "acls.html": [acls.Acls(acls=each, filters=filters) for each in (Panel(value=paged(row)), failed())],
        "acls_of.html": [*of, acls.AclsOf(rights=failed(), answer=failed())],
        "acls_create.html": [
            acl_changes.AclCreation(preview=each, purposes={EVIL: EVIL})
            for each in (Panel(value=preview), Panel[Any](value=None), failed())
        ],
        "acls_delete.html": [acl_changes.AclDeletion(preview=each) for each in (Panel(value=preview), failed())],
    }


def of_clients() -> dict[str, list[Any]]:
    row = connected.ClientRow(
        principal=EVIL,
        client_id=EVIL,
        software=EVIL,
        broker=1,
        listener=EVIL,
        address=EVIL,
        host=EVIL,
        age_ms=5_000,
        since_ms=1,
        requests=1,
        received_bytes=1,
        sent_bytes=1,
    )
    found = connected.Connected(clients=paged(row), silent=[EVIL], principals=1, hosts=1)
    return {"clients.html": [connected.Clients(connected=each) for each in (Panel(value=found), failed())]}


def of_audit() -> dict[str, list[Any]]:
    texts = {each: EVIL for each in AuditLine.__struct_fields__ if each not in ("count", "offset")}
    strange = line_of(json.dumps(texts).encode(), 1)
    found = audit.Lines(lines=[strange, line_of(b"<script>", 2)], looked_through=2, older_than=1)
    nothing = audit.Lines(lines=[], looked_through=0, older_than=None)
    filters = {"q": EVIL, "before": EVIL}
    panels: list[Panel[Any]] = [Panel(value=found), Panel(value=nothing), failed()]
    return {"audit.html": [audit.Audit(audit=each, filters=filters) for each in panels]}


VIEWS = {**of_users(), **of_quotas(), **of_acls(), **of_clients(), **of_audit()}


@pytest.mark.parametrize("template", VIEWS)
def test_what_strangers_named_is_shown_as_text(template: str) -> None:
    for view in VIEWS[template]:
        assert_shown_as_text(template, view)
        assert_shown_as_text(template, view, form=_typed())


def _typed() -> Form:
    names = ("user", "client-id", "ip", "principal", "resource", "operation", "host", "topics", "result", "q")
    return form_of([(each, EVIL) for each in names])


def test_a_password_that_was_typed_is_in_no_page() -> None:
    for view in VIEWS["user_password.html"]:
        typed = form_of([("password", "hunter2"), ("again", "hunter2"), ("user", "alice")])
        page = html_of("user_password.html", view, form=typed)
        assert "hunter2" not in page
        assert page.count('autocomplete="new-password"') in (0, 2)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"user": "alice"}, {"user": "alice"}),
        ({"client-id-default": "yes", "user": "alice"}, {"user": "alice", "client-id": None}),
        ({"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}),
    ],
)
def test_fields_name_the_entity_of_quotas(fields: dict[str, str], expected: dict[str, str | None]) -> None:
    assert quotas.entity_in(form_of(list(fields.items()))) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"user": "alice", "user-default": "yes"},
        {"ip": "10.0.0.1", "user": "alice"},
        {"user": "User:alice"},
    ],
)
def test_an_entity_that_is_none_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(WrongInput):
        quotas.entity_in(form_of(list(fields.items())))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"purpose": "consumer", "topics": "a, b", "groups": "g"}, 5),
        ({"purpose": "producer", "topics": "a"}, 3),
        ({"purpose": "idempotent", "topics": "a"}, 4),
        ({"purpose": "transactional", "topics": "a", "transactional-ids": "t"}, 5),
        ({"purpose": "administrator", "host": "10.0.0.1, 10.0.0.2"}, 8),
        ({"purpose": "operations", "type": "topic", "resource": "a", "operation": "Describe-Configs"}, 1),
    ],
)
def test_acls_are_made_for_a_purpose(fields: dict[str, str], expected: int) -> None:
    made = wanted_entries(form_of([("principal", "alice"), *fields.items()]))
    assert len(made) == expected
    assert {each.principal for each in made} == {"User:alice"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "purpose="),
        ({"purpose": "consumer", "topics": "a"}, "needs topics and groups"),
        ({"purpose": "producer"}, "needs topics"),
        ({"purpose": "operations", "type": "cluster"}, "at least one operation"),
        ({"purpose": "operations", "type": "cluster", "operation": "read"}, "a cluster has no read"),
        ({"purpose": "operations", "type": "cellar", "operation": "read"}, "is not one of topic"),
        ({"purpose": "operations", "type": "topic", "operation": "read"}, "name the topic"),
        ({"purpose": "producer", "topics": "a", "permission": "maybe"}, "is not one of allow"),
        ({"purpose": "producer", "topics": ",".join(map(str, range(201)))}, "more than 200 names"),
    ],
)
def test_what_describes_no_acl_is_refused_with_a_sentence(fields: dict[str, str], problem: str) -> None:
    with pytest.raises(WrongInput, match=problem):
        wanted_entries(form_of([("principal", "User:alice"), *fields.items()]))


def test_the_fields_of_an_acl_choose_it_alone() -> None:
    for each in (entry("orders"), entry("or", pattern_type=PREFIXED), entry("orders", Operation.READ, DENY)):
        chosen = filter_in(form_of(list(fields_of(each).items())))
        assert chosen == exactly(each)
    assert acl_changes.digest([entry("a"), entry("b")]) == acl_changes.digest([entry("b"), entry("a")])
    assert acl_changes.digest([entry("a")]) != acl_changes.digest([entry("b")])


# --- the audit -----------------------------------------------------------------------------------------------------

LINE = line_of(
    b'{"time": "2026-11-27T15:00:00.000Z", "event": "action", "principal": "User:ops", "host": "10.0.0.7",'
    b' "outcome": "TOPIC_AUTHORIZATION_FAILED", "operation": "ALTER_CONFIGS", "resource_type": "TOPIC",'
    b' "resource_name": "orders", "api": "IncrementalAlterConfigs", "client_id": "kraft-console", "later": [1]}',
    7,
)


@pytest.mark.parametrize(
    ("sought", "expected"),
    [
        (Sought(), True),
        (Sought(principal="ops"), True),
        (Sought(principal="User:bob"), False),
        (Sought(operation="alter configs"), True),
        (Sought(operation="incrementalalter"), True),
        (Sought(operation="delete"), False),
        (Sought(result="failed"), True),
        (Sought(result="ok"), False),
        (Sought(result="authorization"), True),
        (Sought(event="login"), False),
        (Sought(text="ORDERS"), True),
        (Sought(text="kraft-console"), True),
    ],
)
def test_lines_of_the_audit_are_found_by_each_field(sought: Sought, expected: bool) -> None:
    assert sought.finds(LINE) is expected


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"7"])
def test_a_record_that_is_no_line_says_so(value: bytes | None) -> None:
    assert line_of(value, 3).detail == "this record is no line of an audit"


def test_a_line_of_strange_types_and_sizes_is_text() -> None:
    line = line_of(b'{"time": 5, "principal": {"a": 1}, "count": "x", "detail": "' + b"d" * 5_000 + b'"}', 1)
    assert (line.time, line.principal, line.count, len(line.detail)) == ("5", "{'a': 1}", 0, 1_000)


def test_times_are_in_utc_and_what_is_none_is_refused() -> None:
    assert moment_ms("", "since") is None
    assert moment_ms("1970-01-01T00:01", "since") == 60_000
    assert moment_ms("1970-01-01T01:01+01:00", "since") == 60_000
    for text in ("yesterday", "2026-13-01", "<script>"):
        with pytest.raises(WrongInput, match="since="):
            moment_ms(text, "since")


# --- clients -------------------------------------------------------------------------------------------------------


def connection(**given: Any) -> ClientConnection:
    values: dict[str, Any] = {
        "listener": "SASL",
        "address": "10.0.0.7:5100",
        "principal": "User:alice",
        "client_id": "app",
        "software_name": "librdkafka",
        "software_version": "2.0",
        "age_ms": 1_000,
        "requests": 1,
        "received_bytes": 1,
        "sent_bytes": 1,
    }
    return ClientConnection(**{**values, **given})


def test_clients_of_the_brokers_that_answer_are_shown_and_the_others_named() -> None:
    two = [connection(), connection(client_id="other", sent_bytes=9)]
    found = connected.connected_of({1: two, 2: KraftError("hangs")}, Wanted(search="librd", sort="sent"), 5_000)
    assert [each.sent_bytes for each in found.clients.rows] == [1, 9]
    assert (found.principals, found.hosts, found.clients.rows[0].since_ms) == (1, 1, 4_000)
    assert found.silent[0].startswith("broker 2 did not answer")


def test_where_the_protocol_has_no_such_call_a_sentence_says_so() -> None:
    missing = Refusal(ErrorCode.UNSUPPORTED_VERSION, "Kafka's protocol has no DescribeClients")
    with pytest.raises(Refusal, match="no call that says who is connected"):
        connected.connected_of({1: missing, 2: missing}, Wanted(), 0)


def quota(key: str, value: float, **entity: str | None) -> QuotaRow:
    names = {name.replace("_", "-"): each for name, each in entity.items()}
    return QuotaRow(entity=names, words=EVIL, quotas=[Quota(key=key, value=value, words=EVIL)])


def test_of_all_quotas_the_most_specific_one_of_each_kind_holds_for_a_client() -> None:
    rows = [
        quota("producer_byte_rate", 1024, client_id="app"),
        quota("producer_byte_rate", 2048, user=None),
        quota("producer_byte_rate", 4096, user="alice", client_id=None),
        quota("consumer_byte_rate", 8192, client_id=None),
        quota("connection_creation_rate", 7, ip=None),
    ]

    def found(user: str, client_id: str, address: str = "") -> dict[str, tuple[str, str]]:
        held = quotas_in_effect.rows_of(rows, user, client_id, address)
        return {each.key: (each.words, each.entity) for each in held if each.query}

    of_default = ("8.0 KiB/s", "the default client id")
    assert found("alice", "app") == {
        "producer_byte_rate": ("4.0 KiB/s", "user alice, the default client id"),
        "consumer_byte_rate": of_default,
    }
    assert found("bob", "app") == {
        "producer_byte_rate": ("2.0 KiB/s", "the default user"),
        "consumer_byte_rate": of_default,
    }
    assert found("", "", "10.0.0.7") == {
        "producer_byte_rate": ("2.0 KiB/s", "the default user"),
        "connection_creation_rate": ("7 connections/s", "the default IP address"),
    }


def test_acls_that_were_there_already_are_not_said_to_be_created() -> None:
    assert acl_changes.created("User:a", 2, 0) == "2 ACLs of User:a created."
    assert acl_changes.created("User:a", 1, 1) == "1 ACL of User:a created: 1 ACL was there already."
    assert acl_changes.created("User:a", 0, 3) == "Nothing was created for User:a: 3 ACLs were there already."
