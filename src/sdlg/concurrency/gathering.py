"""Threads that decode at once meet before each pass of a network, and one of them runs all that are there.

In: a pass that a thread wants, and what runs several. Out: its logits. Nobody waits for a thread that does something
else: passes run when all who are decoding have come, or after a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Generic, TypeVar

from .limits import raise_if_over

A = TypeVar("A")
B = TypeVar("B")

_PATIENCE_SECONDS = 0.05  # for one who is decoding, and late


class _Ticket(Generic[A, B]):
    """What is wanted, and once it was run what came of it."""

    def __init__(self, wanted: A) -> None:
        self.wanted, self.is_done = wanted, False
        self.error: BaseException | None = None
        self.found: B

    def result(self) -> B:
        if self.error is not None:
            raise self.error
        return self.found


class Gathering(Generic[A, B]):
    """Where they meet. `run_all` runs what it is given, in one thread at a time."""

    def __init__(self, run_all: Callable[[Sequence[A]], Sequence[B]]) -> None:
        self._run_all = run_all
        self._changed, self._decoding, self._is_running = Condition(), 0, False
        self._waiting: list[_Ticket[A, B]] = []

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Inside, this thread comes again and again: others wait for it."""
        with self._changed:
            self._decoding += 1
        try:
            yield
        finally:
            with self._changed:
                self._decoding -= 1
                self._changed.notify_all()

    def run(self, wanted: A) -> B:
        """This pass, with those of others if they come in time."""
        ticket = _Ticket[A, B](wanted)
        batch = self._wait_for_others(ticket)
        if batch:
            self._run(batch)
        return ticket.result()

    def _wait_for_others(self, ticket: _Ticket[A, B]) -> list[_Ticket[A, B]]:
        """All that are to be run now, if it is on this thread to run them; none: its own was run by another."""
        last_moment = time.monotonic() + _PATIENCE_SECONDS
        with self._changed:
            self._waiting.append(ticket)
            self._changed.notify_all()
            while not ticket.is_done:
                late = time.monotonic() >= last_moment
                if ticket in self._waiting and not self._is_running and (self._are_all_here or late):
                    batch, self._waiting, self._is_running = self._waiting, [], True
                    return batch
                self._changed.wait(_PATIENCE_SECONDS)
                if ticket in self._waiting:
                    try:
                        raise_if_over()
                    except BaseException:
                        self._waiting.remove(ticket)
                        raise
        return []

    @property
    def _are_all_here(self) -> bool:
        return len(self._waiting) >= self._decoding

    def _run(self, batch: Sequence[_Ticket[A, B]]) -> None:
        try:
            for ticket, found in zip(batch, self._run_all([ticket.wanted for ticket in batch]), strict=True):
                ticket.found = found
        except BaseException as error:
            for ticket in batch:
                ticket.error = error
        finally:
            with self._changed:
                self._is_running = False
                for ticket in batch:
                    ticket.is_done = True
                self._changed.notify_all()
