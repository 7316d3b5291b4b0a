"""Keys of cluster.NAME.oidc.*: what is wrong with them is told, and which addresses are safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.console.oidc.settings import is_safe_url, oidc_settings

GIVEN = {"oidc.issuer": "https://idp.example/realm", "oidc.client.id": "console"}


@pytest.mark.parametrize(
    ("url", "issuer", "safe"),
    [
        ("https://idp.example/token", "https://idp.example", True),
        ("https://idp.example:8443/token?a=b", "", True),
        ("http://localhost:9000", "", True),
        ("http://127.0.0.1:9000/token", "http://localhost:9000", True),
        ("http://127.0.0.1:9000/token", "https://idp.example", False),
        ("http://idp.example/token", "http://idp.example", False),
        ("file:///etc/passwd", "", False),
        ("https://user@idp.example/", "", False),
        ("https://idp.example/#a", "", False),
        ("https:///token", "", False),
        ("https://idp.example:x/", "", False),
        ("https://idp.example/\r\nHost: evil", "", False),
        ("gopher://idp.example", "", False),
        ("", "", False),
    ],
)
def test_only_https_is_safe_and_http_on_loopback(url: str, issuer: str, safe: bool) -> None:
    assert is_safe_url(url, issuer) is safe


def test_a_secret_may_be_in_a_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hidden text\n")
    problems: list[str] = []
    found = oidc_settings("cluster.prod.", {**GIVEN, "oidc.client.secret.file": str(file)}, problems)
    assert found is not None
    assert found.client_secret is not None
    assert (found.client_secret.text, found.host, problems) == ("hidden text", "idp.example", [])
    assert "hidden text" not in repr(found)
    assert oidc_settings("cluster.prod.", {}, problems) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"oidc.issuer": ""}, "cluster.prod.oidc.issuer is missing: set it to the URL of the OpenID provider"),
        ({"oidc.issuer": "http://idp.example"}, "is no URL of a provider: give https://HOST"),
        ({"oidc.client.id": ""}, "cluster.prod.oidc.client.id is missing"),
        ({"oidc.scopes": "profile"}, "oidc.scopes has no openid"),
        ({"oidc.client.secret": "a", "oidc.client.secret.file": "/proc/none"}, "say the same: give one of them"),
        ({"oidc.client.secret.file": "/proc/none"}, "cannot be read: No such file or directory"),
        ({"oidc.ca": "/proc/none"}, "oidc.ca=/proc/none has no certificates that can be read: No such file"),
    ],
)
def test_what_is_wrong_is_told(changed: dict[str, str], said: str) -> None:
    problems: list[str] = []
    assert oidc_settings("cluster.prod.", {**GIVEN, **changed}, problems) is None
    assert any(said in each for each in problems), problems
