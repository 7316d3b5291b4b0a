"""Users, ACLs, quotas, clients and the audit at a real cluster; and people who lose rights while they are logged in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kraft.client import Admin
from kraft.metadata.acl_filters import AclFilter
from kraft.model.access import Operation, ResourceType
from tests.support.acl_entries import entry
from tests.support.console_browser import Browser, token_in
from tests.support.console_cluster import PASSWORD, ConsoleCluster, console_cluster, rights, sent
from tests.support.waiting import until

TOPIC: Final = "orders"
CAROLS: Final = "carol's secret, with = and ,"

PROTOCOLS: Final = ("prod", "open")
"""By Kafka's protocol with a login, and by gRPC."""


@pytest.fixture(name="running", scope="module")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCluster]:
    directory = tmp_path_factory.mktemp("access")
    with console_cluster(directory, 1, rights(TOPIC), **{"audit.log.topic.enable": "true"}) as running:
        yield running


@pytest.fixture(name="root")
def _root(running: ConsoleCluster) -> Browser:
    return running.browsers["root"]


@pytest.fixture(name="admin", scope="module")
def _admin(running: ConsoleCluster) -> Iterator[Admin]:
    with Admin(running.cluster.bootstrap_servers) as admin:
        yield admin


def value(browser: Browser, path: str, panel: str) -> Any:
    answer = browser.get(f"/api/clusters/{path}")
    assert answer.status == 200, answer.text
    return json.loads(answer.text)[panel]["value"]


def logged_in(running: ConsoleCluster, user: str, password: str) -> Browser:
    browser = Browser(running.browsers["root"].port)
    answer = browser.log_in("prod", user, password)
    assert answer.status == 303, answer.text
    return browser


# --- users ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_user_is_created_and_deleted_with_what_hangs_on_it(
    running: ConsoleCluster, root: Browser, admin: Admin, name: str
) -> None:
    base = f"/clusters/{name}/users"
    fields = {"user": "carol", "new": "yes", "password": CAROLS, "again": CAROLS}
    differing = sent(root, f"{base}/password", **{**fields, "again": "typo"})
    assert (differing.status, "the two passwords differ" in differing.text) == (400, True)
    assert CAROLS.split(",")[0] not in differing.text
    assert sent(root, f"{base}/password", **fields).status == 303
    again = sent(root, f"{base}/password", **fields)
    assert (again.status, "exists already" in again.text) == (409, True)
    assert "carol" in root.get(base).text
    logged_in(running, "carol", CAROLS)
    admin.create_acls([entry(TOPIC, Operation.READ, principal="User:carol")])
    admin.alter_client_quotas({"user": "carol"}, {"producer_byte_rate": 1_048_576})
    until(lambda: "1.0 MiB/s" in root.get(f"{base}/delete?user=carol").text, "the page shows what hangs on carol")
    gone = {"user": "carol", "acls": "yes", "quotas": "yes"}
    assert sent(root, f"{base}/delete?user=carol", **gone, confirm="karol").status == 400
    assert sent(root, f"{base}/delete?user=carol", **gone, confirm="carol").status == 303
    assert "User carol is deleted, with 1 ACL and 1 quota" in root.get(base).text
    assert admin.describe_acls(AclFilter(principal="User:carol")) == []
    assert admin.describe_client_quotas({"user": "carol"}) == []


# --- ACLs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROTOCOLS)
def test_acls_are_created_by_purpose_explained_and_deleted_after_a_preview(root: Browser, name: str) -> None:
    base = f"/clusters/{name}/acls"
    query = "principal=dave&purpose=consumer&topics=orders&groups=billing"
    shown = root.get(f"{base}/create?{query}")
    assert (shown.status, "3 ACLs, 3 of them new" in shown.text) == (200, True)
    fields = dict(each.split("=") for each in query.split("&"))
    assert sent(root, f"{base}/create?{query}", **fields).status == 303
    assert "3 ACLs of User:dave created." in root.get(base).text
    asked = f"{name}/acls/of?principal=User:dave&type=topic&resource=orders&operation"
    until(lambda: value(root, f"{asked}=read", "answer")["allowed"], "dave may read")
    assert not value(root, f"{asked}=write", "answer")["allowed"]
    assert "3 ACLs" in root.get(f"{base}?principal=User:dave").text
    assert sent(root, f"{base}/create?{query}", **fields).status == 303
    assert "Nothing was created for User:dave: 3 ACLs were there already." in root.get(base).text
    preview = value(root, f"{name}/acls/delete?principal=User:dave", "preview")
    # Describe follows from Read, of which the topic has an ACL, too: all are lost together.
    assert [each["effect"] for each in preview["changes"]] == ["loses this"] * 3
    chosen = {"principal": "User:dave", "shown": preview["shown"]}
    assert sent(root, f"{base}/delete?principal=User:dave", **chosen, confirm="yes").status == 400
    stale = sent(root, f"{base}/delete?principal=User:dave", **{**chosen, "shown": "0"}, confirm="3 ACLs")
    assert (stale.status, "3 ACLs now" in stale.text) == (409, True)
    assert sent(root, f"{base}/delete?principal=User:dave", **chosen, confirm="3 ACLs").status == 303
    until(lambda: "No ACL is about User:dave" in root.get(f"{base}/of?principal=dave").text, "dave has no ACLs")


def test_nobody_locks_oneself_out_without_a_warning(running: ConsoleCluster, admin: Admin) -> None:
    rights_of_boss = [
        entry("kafka-cluster", each, principal="User:boss", resource_type=ResourceType.CLUSTER)
        for each in (Operation.ALTER, Operation.DESCRIBE)
    ]
    admin.create_acls(rights_of_boss)
    running.cluster.set_password("boss", PASSWORD, "SCRAM-SHA-512")
    boss = logged_in(running, "boss", PASSWORD)
    path = "prod/acls/delete?principal=User:boss&operation=alter"
    until(lambda: boss.get(f"/api/clusters/{path}").status == 200, "the broker knows what boss may")
    preview = value(boss, path, "preview")
    assert "afterwards" in preview["warning"]
    chosen = {"principal": "User:boss", "operation": "alter", "shown": preview["shown"]}
    refused = sent(boss, f"/clusters/{path}", **chosen)
    assert (refused.status, "nothing is deleted" in refused.text) == (400, True)
    assert sent(boss, f"/clusters/{path}", **chosen, force="yes").status == 303


# --- quotas and clients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROTOCOLS)
def test_quotas_are_set_in_words_and_nobodys_change_is_overwritten(root: Browser, admin: Admin, name: str) -> None:
    path = f"/clusters/{name}/quotas"
    entity = {"user": f"erin-{name}", "client-id-default": "yes"}
    query = f"user=erin-{name}&client-id-default=yes"
    assert sent(root, f"{path}/set?{query}", **entity, producer_byte_rate="1 parsec").status == 400
    assert sent(root, f"{path}/set?{query}", **entity, producer_byte_rate="1.5 MiB").status == 303
    until(lambda: "1.5 MiB/s" in root.get(path).text, "the quota is listed")
    shown = value(root, f"{name}/quotas/set?{query}", "entity")["shown"]
    admin.alter_client_quotas({"user": f"erin-{name}", "client-id": None}, {"request_percentage": 5})
    changed = {**entity, "shown": shown, "producer_byte_rate": ""}

    def is_noticed() -> bool:
        answer = sent(root, f"{path}/set?{query}", **changed)
        return (answer.status, "somebody has changed these quotas meanwhile" in answer.text) == (409, True)

    until(lambda: "5 % of a core" in root.get(path).text, "the other change is known")
    assert is_noticed()
    assert sent(root, f"{path}/remove?{query}", **entity).status == 303
    until(lambda: f"erin-{name}" not in root.get(f"/api{path}").text, "the quotas are gone")


def test_clients_are_those_of_the_brokers_where_the_protocol_says_so(root: Browser) -> None:
    found = value(root, "open/clients?q=kraft-console&sort=since", "connected")["clients"]["rows"]
    assert {each["principal"] for each in found} >= {"User:ANONYMOUS", "User:root"}
    assert all(each["client_id"] == "kraft-console" for each in found)
    missing = root.get("/clusters/prod/clients")
    assert (missing.status, "no call that says who is connected" in missing.text.replace("&#39;", "'")) == (501, True)


# --- the audit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_is_done_by_the_console_is_audited_with_the_users_name(root: Browser, name: str) -> None:
    fields = {"principal": f"User:frank-{name}", "purpose": "producer", "topics": TOPIC}
    assert sent(root, f"/clusters/{name}/acls/create", **fields).status == 303
    who = "User:root" if name == "prod" else "User:ANONYMOUS"
    path = f"{name}/audit?principal={who}&operation=CreateAcls&q=frank-{name}"

    def lines(more: str = "&result=OK&since=2020-01-01T00:00") -> list[Any]:
        found: list[Any] = value(root, path + more, "audit")["lines"]
        return found

    until(lambda: len(lines()) == 3, "the three ACLs are audited")
    assert {(each["principal"], each["client_id"], each["api"]) for each in lines()} == {
        (who, "kraft-console", "CreateAcls")
    }
    assert lines("&result=failed") == lines("&until=2020-01-02T00:00") == lines("&event=login") == []


def test_who_may_not_read_the_audit_is_told_so(running: ConsoleCluster) -> None:
    refused = running.browsers["operator"].get("/clusters/prod/audit")
    assert (refused.status, "you may not see this" in refused.text) == (403, True)
    wrong = running.browsers["root"].get("/clusters/prod/audit?since=yesterday")
    assert (wrong.status, "is no time" in wrong.text) == (400, True)


# --- people who lose rights ----------------------------------------------------------------------------------------


def test_who_loses_a_right_gets_a_sentence_at_the_next_click(running: ConsoleCluster, admin: Admin) -> None:
    right = entry("kafka-cluster", Operation.DESCRIBE, principal="User:gina", resource_type=ResourceType.CLUSTER)
    admin.create_acls([right])
    running.cluster.set_password("gina", PASSWORD, "SCRAM-SHA-512")
    gina = logged_in(running, "gina", PASSWORD)
    until(lambda: gina.get("/clusters/prod/users").status == 200, "gina may look")
    admin.delete_acls([AclFilter(principal="User:gina")])
    until(lambda: gina.get("/clusters/prod/users").status == 403, "gina may not look any more")
    refused = gina.get("/clusters/prod/users")
    assert "you may not see this" in refused.text
    assert gina.get("/clusters/prod/topics").status == 200, "still logged in"


@pytest.mark.parametrize("page", ["", "/topics", "/brokers", "/users"])
def test_who_has_another_password_now_is_asked_for_it(running: ConsoleCluster, admin: Admin, page: str) -> None:
    user = f"hugo{page.replace('/', '-')}"
    running.cluster.set_password(user, PASSWORD, "SCRAM-SHA-512")
    hugo = logged_in(running, user, PASSWORD)
    token = token_in(hugo.get("/clusters/prod/topics").text)
    # Brokers end the connections of a user that is deleted, and let one with another password go on.
    admin.delete_password(user, "SCRAM-SHA-512")
    running.cluster.set_password(user, CAROLS, "SCRAM-SHA-512")
    until(lambda: hugo.get(f"/clusters/prod{page}").status == 303, "the login is over")
    asked = hugo.get(f"/clusters/prod{page}")
    assert asked.headers["location"].startswith("/login?cluster=prod&next=%2Fclusters%2Fprod")
    assert f"prod does not let {user} in any more" in hugo.get(asked.headers["location"]).text
    assert hugo.get("/api/clusters/prod/topics").status == 401
    assert hugo.post("/clusters/prod/acls/create", {"token": token}).status == 303
    # Nothing counts against the user: the new password is let in at once.
    assert hugo.log_in("prod", user, CAROLS).status == 303
    assert hugo.get("/clusters/prod/topics").status == 200


def test_who_changes_the_own_password_logs_in_with_it(running: ConsoleCluster, admin: Admin) -> None:
    everything = entry("kafka-cluster", Operation.ALL, principal="User:lou", resource_type=ResourceType.CLUSTER)
    admin.create_acls([everything])
    running.cluster.set_password("lou", PASSWORD, "SCRAM-SHA-512")
    lou = logged_in(running, "lou", PASSWORD)
    path = "/clusters/prod/users/password"
    until(lambda: lou.get(f"{path}?user=lou").status == 200, "lou may change passwords")
    changed = sent(lou, f"{path}?user=lou", user="lou", password=CAROLS, again=CAROLS)
    # Open connections would go on, and new ones be refused: nothing is left half logged in.
    assert changed.headers["location"].startswith("/login?")
    assert "The password of user lou is set" in lou.get(changed.headers["location"]).text
    assert lou.log_in("prod", "lou", PASSWORD).status == 401
    assert lou.log_in("prod", "lou", CAROLS).status == 303
