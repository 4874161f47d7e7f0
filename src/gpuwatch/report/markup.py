"""Markup that nothing can break out of: a page is a tree, and text is text in it.

Strings enter through `el` alone: what a terminal or a reader's eye could be steered by is made
visible there, and the serialiser escapes the rest. No string is ever taken for markup.
"""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

from gpuwatch.model.text import sanitize

__all__ = ["Child", "document", "el"]

LONGEST = 2000
"""Characters of one piece of text."""

Child = Element | str | None | Iterable["Child"]


def el(tag: str, *children: Child, **attributes: str | float | None) -> Element:
    """Return an element.

    Args:
        tag: its name.
        *children: elements, text, iterables of both; None is left out.
        **attributes: `class_` is `class`, other underscores are hyphens; None is left out.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.rstrip("_").replace("_", "-"), _safe(value))
    _append(made, children)
    return made


def document(root: Element) -> str:
    """Return a page of HTML 5."""
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _append(parent: Element, children: Iterable[Child]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Element):
            parent.append(child)
        elif isinstance(child, str):
            _write(parent, sanitize(child, LONGEST))
        else:
            _append(parent, child)


def _write(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _safe(value: str | float) -> str:
    return sanitize(value, LONGEST) if isinstance(value, str) else f"{value:g}"
