"""Pages of the console without a console: templates that are given what strangers wrote."""

from __future__ import annotations

import re
from typing import Any, Final

from kraft.console import rendering
from kraft.console.asking import Paged, Panel
from kraft.console.forms import Form
from kraft.console.routes import NAVIGATION

EVIL: Final = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e"
"""What runs, or turns the text around it, where it is not shown as text."""

_OWN_SCRIPTS: Final = re.compile(r'<script src="/static/[a-z/.-]+" defer></script>')


def without_own_scripts(page: str) -> str:
    """Return the page without the only scripts that it may have."""
    return _OWN_SCRIPTS.sub("", page)


def html_of(template: str, view: Any, **values: Any) -> str:
    """Return the page as a user sees it whose every word is an attack."""
    shared = {
        "navigation": NAVIGATION,
        "clusters": [],
        "csrf_token": EVIL,
        "cluster": "prod",
        "user": EVIL,
        "path": "/clusters/prod",
        "logins": {},
        "is_logged_in": True,
        "form": Form(),
        "problem": EVIL,
        "said": EVIL,
    }
    return rendering.html_of(rendering.environment(), template, {**shared, "view": view, **values})


def assert_shown_as_text(template: str, view: Any, **values: Any) -> None:
    page = without_own_scripts(html_of(template, view, **values))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page


def paged(*rows: Any) -> Paged[Any]:
    """Return a page of a table with these rows, and more after it."""
    return Paged(rows=list(rows), found=1, total=9, page=1, pages=2, search=EVIL, sort="name", descending=False)


def failed() -> Panel[Any]:
    return Panel(problem=EVIL, code="NO_ANSWER")
