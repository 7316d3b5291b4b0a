"""Every address that the console answers: one table. A test asks each of them as each kind of user."""

from __future__ import annotations

from typing import Final

from kraft.console.pages import (
    broker,
    elections,
    group_changes,
    group_history,
    group_reset,
    hanging,
    moves,
    plan,
    transactions,
)
from kraft.console.pages.access import acl_changes, acls, audit, connected, quotas, quotas_in_effect, users
from kraft.console.pages.brokers import brokers
from kraft.console.pages.group import group
from kraft.console.pages.groups import groups
from kraft.console.pages.overview import overview
from kraft.console.pages.produce import FORM_BYTES_MAX as RECORD_BYTES_MAX
from kraft.console.pages.produce import produce, send
from kraft.console.pages.records import record, records, tail, tail_page
from kraft.console.pages.topics import topic, topics
from kraft.console.parameters import ACL_FILTER, FILTERS, NEW_ACLS, PRODUCED, QUOTA_ENTITY, QUOTAS, SHOWN_AS, TABLE
from kraft.console.route_kinds import Access, Action, Change, Page, Stream
from kraft.console.topic_routes import TOPIC_CHANGES, TOPIC_PAGES

NAVIGATION: Final = (
    ("Overview", ""),
    ("Brokers", "/brokers"),
    ("Topics", "/topics"),
    ("Groups", "/groups"),
    ("Transactions", "/transactions"),
    ("Moves", "/moves"),
    ("Users", "/users"),
    ("ACLs", "/acls"),
    ("Quotas", "/quotas"),
    ("Clients", "/clients"),
    ("Audit", "/audit"),
)
"""Titles, and the ends of their addresses below the cluster's."""


_BROKER: Final = "/clusters/{cluster}/brokers/{broker}"
_MOVES: Final = "/clusters/{cluster}/moves"
_PLAN: Final = "/clusters/{cluster}/moves/plan"
_ELECTIONS: Final = "/clusters/{cluster}/moves/elections"
_UNCLEAN: Final = "/clusters/{cluster}/moves/elections/unclean"
_GROUP_HISTORY: Final = "/clusters/{cluster}/group-history/{group:path}"
_GROUP_RESET: Final = "/clusters/{cluster}/group-reset/{group:path}"
_GROUP_OFFSETS: Final = "/clusters/{cluster}/group-offsets/{group:path}"
_GROUP_MEMBERS: Final = "/clusters/{cluster}/group-members/{group:path}"
_GROUP_DELETE: Final = "/clusters/{cluster}/group-delete/{group:path}"
_ABORT: Final = "/clusters/{cluster}/transaction-abort"
_RESET: Final = ("target", "value", "topic", "partitions")

PAGES: Final = (
    Page(
        path="/clusters/{cluster}",
        template="overview.html",
        load=overview,
        asks="Describe on Cluster",
        takes=("more",),
    ),
    Page(path="/clusters/{cluster}/brokers", template="brokers.html", load=brokers, asks="Describe on Cluster"),
    Page(path=_BROKER, template="broker.html", load=broker.broker, asks="Describe on Cluster", takes=TABLE),
    Page(
        path=_MOVES,
        template="moves.html",
        load=moves.moves,
        asks="Describe on Cluster and on Topic, each",
        takes=("part", "q", "page"),
    ),
    Page(
        path=_PLAN,
        template="plan.html",
        load=plan.plan,
        asks="Describe on Cluster and on Topic, each",
        takes=("way", "topics", "brokers", "off", "ignore_racks", "plan"),
    ),
    Page(
        path=_ELECTIONS,
        template="elections.html",
        load=elections.elections,
        asks="Describe on Topic, each",
        takes=("q", "page"),
    ),
    Page(
        path=_UNCLEAN,
        template="unclean.html",
        load=elections.unclean,
        asks="Describe on Cluster and on Topic",
        takes=("which",),
    ),
    Page(
        path="/clusters/{cluster}/topics",
        template="topics.html",
        load=topics,
        asks="Describe on Topic, each",
        takes=(*TABLE, "more"),
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}",
        template="topic.html",
        load=topic,
        asks="Describe on Topic",
        takes=("page",),
    ),
    *TOPIC_PAGES,
    Page(
        path="/clusters/{cluster}/topics/{topic}/produce",
        template="produce.html",
        load=produce,
        asks="Describe on Topic",
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/records",
        template="records.html",
        load=records,
        asks="Read on Topic",
        takes=("partition", "from", "offset", "time", "rows", "at", *SHOWN_AS, *FILTERS),
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/records/{partition}/{offset}",
        template="record.html",
        load=record,
        asks="Read on Topic",
        takes=SHOWN_AS,
    ),
    Page(
        path="/clusters/{cluster}/topics/{topic}/tail",
        template="tail.html",
        load=tail_page,
        asks="nothing: its script asks for the events",
        takes=("partition", *SHOWN_AS, *FILTERS),
    ),
    Page(
        path="/clusters/{cluster}/groups",
        template="groups.html",
        load=groups,
        asks="Describe on Group, each",
        takes=TABLE,
    ),
    # A group id may hold any character.
    Page(
        path="/clusters/{cluster}/groups/{group:path}",
        template="group.html",
        load=group,
        asks="Describe on Group",
        takes=("q", "page"),
    ),
    Page(
        path=_GROUP_HISTORY,
        template="group_history.html",
        load=group_history.group_history,
        asks="Describe on Group, and on Topic",
    ),
    Page(
        path=_GROUP_RESET,
        template="group_reset.html",
        load=group_reset.reset_page,
        asks="Describe on Group, and on Topic",
        takes=_RESET,
    ),
    Page(path=_GROUP_OFFSETS, template="group_offsets.html", load=group_changes.offsets_page, asks="Describe on Group"),
    Page(path=_GROUP_MEMBERS, template="group_members.html", load=group_changes.members_page, asks="Describe on Group"),
    Page(path=_GROUP_DELETE, template="group_delete.html", load=group_changes.delete_page, asks="Describe on Group"),
    Page(
        path="/clusters/{cluster}/transactions",
        template="transactions.html",
        load=transactions.transactions,
        asks="Describe on TransactionalId, each",
        takes=(*TABLE, "show"),
    ),
    Page(
        path="/clusters/{cluster}/transactions/{transactional_id:path}",
        template="transaction.html",
        load=transactions.transaction,
        asks="Describe on TransactionalId",
    ),
    Page(
        path="/clusters/{cluster}/transaction-producers",
        template="producers.html",
        load=transactions.producers,
        asks="Read on Topic",
        takes=("topic", "partition"),
    ),
    Page(
        path="/clusters/{cluster}/transaction-hanging",
        template="hanging.html",
        load=hanging.hanging,
        asks="Read on Topic, each; Describe on TransactionalId",
        takes=("topic", "minutes"),
    ),
    Page(
        path=_ABORT,
        template="abort.html",
        load=hanging.abort_page,
        asks="Read on Topic; Describe on TransactionalId",
        takes=("topic", "partition", "start_offset"),
    ),
    Page(
        path="/clusters/{cluster}/users",
        template="users.html",
        load=users.users,
        asks="Describe on Cluster",
        takes=TABLE,
    ),
    Page(
        path="/clusters/{cluster}/users/password",
        template="user_password.html",
        load=users.user_password,
        asks="Describe on Cluster",
        takes=("user",),
    ),
    Page(
        path="/clusters/{cluster}/users/delete",
        template="user_delete.html",
        load=users.user_deletion,
        asks="Describe on Cluster",
        takes=("user",),
    ),
    Page(
        path="/clusters/{cluster}/acls",
        template="acls.html",
        load=acls.acls,
        asks="Describe on Cluster",
        takes=(*TABLE, *ACL_FILTER),
    ),
    Page(
        path="/clusters/{cluster}/acls/of",
        template="acls_of.html",
        load=acls.acls_of,
        asks="Describe on Cluster",
        takes=("principal", "operation", "type", "resource", "host"),
    ),
    Page(
        path="/clusters/{cluster}/acls/create",
        template="acls_create.html",
        load=acl_changes.acl_creation,
        asks="Describe on Cluster",
        takes=NEW_ACLS,
    ),
    Page(
        path="/clusters/{cluster}/acls/delete",
        template="acls_delete.html",
        load=acl_changes.acl_deletion,
        asks="Describe on Cluster",
        takes=(*ACL_FILTER, "pattern"),
    ),
    Page(
        path="/clusters/{cluster}/quotas",
        template="quotas.html",
        load=quotas.quotas,
        asks="DescribeConfigs on Cluster",
        takes=TABLE,
    ),
    Page(
        path="/clusters/{cluster}/quotas/of",
        template="quotas_of.html",
        load=quotas_in_effect.quotas_of_client,
        asks="DescribeConfigs on Cluster",
        takes=("user", "client-id", "ip"),
    ),
    Page(
        path="/clusters/{cluster}/quotas/set",
        template="quotas_set.html",
        load=quotas.quotas_of_entity,
        asks="DescribeConfigs on Cluster",
        takes=QUOTA_ENTITY,
    ),
    Page(
        path="/clusters/{cluster}/quotas/remove",
        template="quotas_remove.html",
        load=quotas.quotas_to_remove,
        asks="DescribeConfigs on Cluster",
        takes=QUOTA_ENTITY,
    ),
    Page(
        path="/clusters/{cluster}/clients",
        template="clients.html",
        load=connected.clients,
        asks="Describe on Cluster",
        takes=TABLE,
    ),
    Page(
        path="/clusters/{cluster}/audit",
        template="audit.html",
        load=audit.audit,
        asks="Read on Topic __audit",
        takes=("principal", "operation", "result", "event", "q", "since", "until", "before"),
    ),
)

CHANGES: Final[tuple[Change, ...]] = (
    Change(
        path="/clusters/{cluster}/topics/{topic}/produce",
        perform=send,
        asks="Write on Topic",
        takes=PRODUCED,
        form_bytes_max=RECORD_BYTES_MAX,
    ),
    Change(
        path="/clusters/{cluster}/users/password",
        perform=users.set_password,
        asks="Alter on Cluster",
        takes=("user", "new", "password", "again", "mechanism", "iterations"),
    ),
    Change(
        path="/clusters/{cluster}/users/delete",
        perform=users.delete_user,
        asks="Alter on Cluster",
        takes=("user", "confirm", "acls", "quotas", "force"),
    ),
    Change(
        path="/clusters/{cluster}/acls/create",
        perform=acl_changes.create_acls,
        asks="Alter on Cluster",
        takes=(*NEW_ACLS, "force"),
    ),
    Change(
        path="/clusters/{cluster}/acls/delete",
        perform=acl_changes.delete_acls,
        asks="Alter on Cluster",
        takes=(*ACL_FILTER, "pattern", "shown", "confirm", "force"),
    ),
    Change(
        path="/clusters/{cluster}/quotas/set",
        perform=quotas.alter_quotas,
        asks="AlterConfigs on Cluster",
        takes=(*QUOTA_ENTITY, *QUOTAS, "shown"),
    ),
    Change(
        path="/clusters/{cluster}/quotas/remove",
        perform=quotas.remove_quotas,
        asks="AlterConfigs on Cluster",
        takes=QUOTA_ENTITY,
    ),
    Change(
        path=_BROKER,
        perform=broker.move_directories,
        asks="Alter on Cluster; for a throttle, AlterConfigs on Cluster",
        takes=("partitions", "directory", "throttle"),
    ),
    Change(
        path=_MOVES,
        perform=moves.change_moves,
        asks="Alter on Cluster; AlterConfigs on Cluster and Topic",
        takes=("do", "partitions"),
    ),
    Change(
        path=_PLAN,
        perform=plan.run_plan,
        asks="Alter on Cluster; for a throttle, AlterConfigs on Cluster and Topic",
        takes=("plan", "throttle", "in_addition"),
        form_bytes_max=plan.FORM_BYTES_MAX,
    ),
    Change(
        path=_ELECTIONS,
        perform=elections.elect_preferred,
        asks="Alter on Cluster",
        takes=("partitions", "topics", "all"),
    ),
    Change(path=_UNCLEAN, perform=elections.elect_unclean, asks="Alter on Cluster", takes=("which", "confirm")),
    Change(
        path=_GROUP_RESET,
        perform=group_reset.reset_offsets,
        asks="Read on Group, and on Topic",
        form_bytes_max=group_reset.FORM_BYTES_MAX,
        takes=(*_RESET, "plan"),
    ),
    Change(
        path=_GROUP_OFFSETS,
        perform=group_changes.delete_offsets,
        asks="Delete on Group, and Read on Topic",
        takes=("topic", "confirm"),
    ),
    Change(path=_GROUP_MEMBERS, perform=group_changes.remove_members, asks="Read on Group", takes=("instance",)),
    Change(path=_GROUP_DELETE, perform=group_changes.delete_group, asks="Delete on Group", takes=("confirm",)),
    Change(
        path=_ABORT,
        perform=hanging.abort,
        asks="Write on Topic; over Kafka's protocol ClusterAction on Cluster",
        takes=("topic", "partition", "start_offset", "confirm"),
    ),
    *TOPIC_CHANGES,
)

STREAMS: Final[tuple[Stream, ...]] = (
    Stream(
        path="/clusters/{cluster}/topics/{topic}/tail/events",
        events=tail,
        asks="Read on Topic",
        takes=("partition", "at", *SHOWN_AS, *FILTERS),
    ),
)

ACTIONS: Final = (
    Action(name="home", path="/", method="GET", access=Access.ANYBODY),
    Action(name="api", path="/api", method="GET", access=Access.ANYBODY),
    Action(name="openapi", path="/api/openapi.json", method="GET", access=Access.ANYBODY),
    Action(name="clusters", path="/api/clusters", method="GET", access=Access.ANYBODY),
    Action(name="login_form", path="/login", method="GET", access=Access.ANYBODY),
    Action(name="log_in", path="/login", method="POST", access=Access.ANYBODY, changes=True),
    Action(name="log_in_by_api", path="/api/login", method="POST", access=Access.ANYBODY, changes=True),
    Action(name="oidc_begin", path="/login/oidc/{cluster}", method="GET", access=Access.ANYBODY),
    Action(name="oidc_end", path="/login/oidc/{cluster}/callback", method="GET", access=Access.ANYBODY),
    Action(name="own_sessions", path="/sessions", method="GET", access=Access.SESSION),
    Action(name="end_session", path="/sessions/end", method="POST", access=Access.SESSION, changes=True),
    Action(name="log_out", path="/logout", method="POST", access=Access.SESSION, changes=True),
    Action(name="static", path="/static/{file:path}", method="GET", access=Access.ANYBODY),
)
