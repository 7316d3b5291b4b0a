"""Pages of users, ACLs, quotas, clients and the audit: what strangers wrote there is shown as text, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.console.asking import Paged, Panel
from kraft.console.forms import Form, WrongInput, form_of
from kraft.console.pages.access import quotas, users
from kraft.console.pages.access.acl_rows import AclRow
from kraft.console.pages.access.quota_rows import Quota, QuotaRow
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
    nobody = quotas.QuotasForm(entity={}, words="", query={}, fields=[], shown="")
    forms = [quotas.QuotasOfEntity(entity=each) for each in (Panel(value=form), Panel(value=nobody), failed())]
    return {
        "quotas.html": [quotas.Quotas(quotas=Panel(value=paged(QUOTA))), quotas.Quotas(quotas=failed())],
        "quotas_set.html": forms,
        "quotas_remove.html": forms,
    }


VIEWS = {**of_users(), **of_quotas()}


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
