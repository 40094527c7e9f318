"""Something that is made when it is first needed, once, by whichever thread that is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Call it to have the thing."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._turn = cache(make), Lock()

    def __call__(self) -> T:
        """The thing, made now or before."""
        with self._turn:
            return self._make()
