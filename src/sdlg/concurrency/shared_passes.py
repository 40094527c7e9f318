"""Threads that decode at once meet before each pass of a network, and one of them runs all that are there.

In: a pass that a thread wants, and what runs several. Out: its logits, or its own error. Nobody waits for a thread that
does something else: passes run when all who are decoding have come, or a moment after the network was free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, get_ident
from typing import Generic, TypeVar

from .limits import gives_way, raise_if_over

A = TypeVar("A")
B = TypeVar("B")

_PATIENCE_SECONDS = 0.05  # for a thread that is decoding, and late


class _Ticket(Generic[A, B]):
    """What a thread wants, and once it was run what came of it."""

    def __init__(self, wanted: A, *, waits: bool) -> None:
        self.wanted, self.waits = wanted, waits
        self.thread, self.arrived = get_ident(), time.monotonic()
        self.found: B | BaseException | None = None

    def result(self) -> B:
        assert self.found is not None
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


class SharedPasses(Generic[A, B]):
    """Where threads meet. `run_all` runs what it is given, in one thread at a time: a result or an error for each."""

    def __init__(self, run_all: Callable[[Sequence[A]], Sequence[B | Exception]]) -> None:
        self._run_all = run_all
        self._changed, self._free_since, self._is_running = Condition(), 0.0, False
        self._decoding: set[int] = set()  # threads
        self._waiting: list[_Ticket[A, B]] = []

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Inside, this thread comes again and again, and others wait for it; not if it gives way to others."""
        thread = get_ident()
        if thread in self._decoding or gives_way():
            yield
            return
        with self._changed:
            self._decoding.add(thread)
        try:
            yield
        finally:
            with self._changed:
                self._decoding.discard(thread)
                self._changed.notify_all()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, this thread does something else: nobody waits for it."""
        thread = get_ident()
        was_decoding = thread in self._decoding
        with self._changed:
            self._decoding.discard(thread)
            self._changed.notify_all()
        try:
            yield
        finally:
            if was_decoding:
                with self._changed:
                    self._decoding.add(thread)

    def run(self, wanted: A, *, waits: bool = True) -> B:
        """Run this pass, with those of others if they come in time; if it does not wait, with those that are there."""
        ticket = _Ticket[A, B](wanted, waits=waits)
        with self._changed:
            self._waiting.append(ticket)
            self._changed.notify_all()
            try:
                self._wait_for_turn(ticket)
            except BaseException:
                self._waiting = [other for other in self._waiting if other is not ticket]
                raise
            if ticket.found is not None:
                return ticket.result()
            batch, self._waiting, self._is_running = self._waiting, [], True
        self._run(batch)
        return ticket.result()

    def _wait_for_turn(self, ticket: _Ticket[A, B]) -> None:
        """Wait until another thread has run it, or it is on this thread to run all that are there."""
        while ticket.found is None:
            left = 0.0
            if not self._is_running:
                left = max(ticket.arrived, self._free_since) + _PATIENCE_SECONDS - time.monotonic()
                are_all_here = self._decoding <= {other.thread for other in self._waiting}
                if ticket in self._waiting and (left <= 0 or not ticket.waits or are_all_here):
                    return
            self._changed.wait(left if left > 0 else _PATIENCE_SECONDS)
            if ticket in self._waiting:
                raise_if_over()

    def _run(self, batch: Sequence[_Ticket[A, B]]) -> None:
        results: Sequence[B | BaseException] = []
        try:
            results = self._run_all([ticket.wanted for ticket in batch])
        except BaseException as error:
            results = [error] * len(batch)
        finally:
            with self._changed:
                self._is_running, self._free_since = False, time.monotonic()
                for ticket, found in zip(batch, results, strict=False):
                    ticket.found = found
                self._changed.notify_all()
