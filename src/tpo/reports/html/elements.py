"""HTML that is escaped by default: text stays text, and only `element` makes markup."""

from __future__ import annotations

from html import escape


class Html(str):
    """A string that is markup already."""

    __slots__ = ()


def element(name: str, *children: object, **attributes: object) -> Html:
    """`<name attributes>children</name>`; children are escaped unless they are Html, None is left out.

    A trailing underscore is dropped and other underscores become dashes: `class_`, `aria_label`.
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{shown}>{joined(*children)}</{name}>")


def joined(*children: object) -> Html:
    """The children one after another, escaped unless they are Html."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escape(str(child))
            for child in children
            if child is not None
        )
    )
