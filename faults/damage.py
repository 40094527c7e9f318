"""Strategies of hypothesis: a valid document with some of it damaged, any JSON, any bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

HARD = st.sampled_from([
    None, True, False, 0, -1, 1, 10**400, -(10**400), 2**63, 1e308, -1e308, 5e-324, float("nan"), float("inf"),
    -float("inf"), "", "x", "\ud800", "1", "NaN", "nul\0", [], {}, [[]], [{}], [[[1]]], {"": ""}, [None], "é" * 300,
    [1, 2], [[1, 2], [3]], {"format": 1}, {"id": 3},
]).map(deepcopy)  # fmt: skip
ANY = st.recursive(
    HARD | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, documents: Sequence[Any]) -> bytes:
    """What a reader may find in the place of one of these documents."""
    kind = draw(st.sampled_from(("value", "value", "value", "value", "bytes", "any", "noise")))
    if kind == "noise":
        return draw(st.binary(max_size=200))
    if kind == "any":
        return _written(draw(ANY))
    document = draw(st.sampled_from(documents))
    if isinstance(document, bytes):
        return _with_other_bytes(draw, document)
    document = deepcopy(document)
    if kind == "bytes":
        return _with_other_bytes(draw, _written(document))
    for _ in range(draw(st.integers(1, 3))):
        document = _with_other_value(draw, document)
    return _written(document)


def _written(document: Any) -> bytes:
    return json.dumps(document).encode()


def _with_other_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    place = draw(st.integers(0, len(content) - 1))
    return draw(st.sampled_from((
        content[:place],
        content[:place] + bytes([content[place] ^ 1 << draw(st.integers(0, 7))]) + content[place + 1 :],
        content[:place] + draw(st.binary(min_size=1, max_size=4)) + content[place:],
        content[:place] + content[place + draw(st.integers(1, 40)) :],
        content[place:] + content[:place],
    )))  # fmt: skip


def _with_other_value(draw: st.DrawFn, document: Any) -> Any:
    """One place of the document, at any depth, is another value, gone, twice there, or deeper."""
    places = _places(document)
    if not places:
        return draw(ANY)
    holder, key = places[draw(st.integers(0, len(places) - 1))]
    action = draw(st.sampled_from(("hard", "hard", "any", "gone", "twice", "deeper", "renamed")))
    if action == "hard":
        holder[key] = draw(HARD)
    elif action == "any":
        holder[key] = draw(ANY)
    elif action == "gone":
        del holder[key]
    elif action == "deeper":
        holder[key] = [holder[key]]
    elif isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[draw(st.text(max_size=5))] = holder.pop(key) if action == "renamed" else holder[key]
    return document


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a document."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]
