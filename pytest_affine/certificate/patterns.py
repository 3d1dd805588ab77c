"""Names with stars, as policies and waivers give them."""

from __future__ import annotations

__all__ = ["matches"]


def matches(pattern: str, text: str) -> bool:
    """Whether a text is of a pattern, in which `*` stands for any characters or none.

    In one pass, however many stars there are.
    """
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *middle, last = others
    end = len(first)
    if not text.startswith(first):
        return False
    for part in middle:
        found = text.find(part, end)
        if found < 0:
            return False
        end = found + len(part)
    return len(text) - len(last) >= end and text.endswith(last)
