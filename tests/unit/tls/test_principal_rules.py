from __future__ import annotations

import pytest

from kraft.tls.principal_rules import InvalidPrincipalRules, NoPrincipal, PrincipalRules

RULES = r"""
RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,
RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/,
RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,
DEFAULT
"""


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("CN=Spark,OU=ServiceUsers,O=Org,C=DE", "spark"),
        ("CN=Ada,OU=Sales,O=Org,L=Bonn,ST=NRW,C=DE", "Ada@Sales"),
        ("cn=ada.lovelace,dc=example", "ADA.LOVELACE"),
        ("OU=Sales,O=Org", "OU=Sales,O=Org"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(owner: str, name: str) -> None:
    assert PrincipalRules(RULES).name(owner) == name


def test_a_pattern_that_is_found_inside_a_name_does_not_match_it() -> None:
    with pytest.raises(NoPrincipal, match="no rule"):
        PrincipalRules("RULE:CN=ada/ada/").name("CN=ada,O=Org")


@pytest.mark.parametrize("text", ["", " , ,, "])
def test_an_empty_list_names_nobody(text: str) -> None:
    with pytest.raises(NoPrincipal):
        PrincipalRules(text).name("CN=ada")


@pytest.mark.parametrize(
    ("rule", "owner", "name"),
    [
        (r"RULE:^CN=(.*?)\/(.*?)$/$2\/$1/", "CN=a/b", "b/a"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/", r"CN=Roe\, Jane,OU=IT", r"Roe\, Jane"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=ada", "ada@$4"),
        ("RULE:^CN=(.*)$/$12/", "CN=ada", "ada2"),
        ("RULE:^CN=.*$/all/", "CN=ada", "all"),
        ("RULE:^CN=([^,]*),.*$/RULE: $1, DEFAULT/", "CN=ada,O=x", "RULE: ada, DEFAULT"),
    ],
)
def test_replacements(rule: str, owner: str, name: str) -> None:
    assert PrincipalRules(rule).name(owner) == name


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "DEFAULT/L",
        "DEFAULT DEFAULT",
        "RULE:^CN=(.*)$/$1",
        "RULE:^CN=(.*)$/L",
        "rule:^CN=(.*)$/$1/",
        "RULE:^CN=(.*)$/$1/L/U",
        "RULE:^CN=(.*)$/$1/LU",
        "RULE:(/x/",
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidPrincipalRules):
        PrincipalRules(text)
