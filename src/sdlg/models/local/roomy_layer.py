"""One layer's keys and values, with room to grow: what a cache of ours is made of.

In: the keys and values of new tokens. Out: all that there are, written in place as long as the room lasts.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicLayer

_SPARE_COLUMNS = 128  # and rooms are multiples of it: what one leaves free fits the next, so memory is not in pieces


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values with spare room: appending writes in place instead of copying the whole cache."""

    keys: Tensor
    values: Tensor
    _rooms: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append (batch, heads, new, width) and return all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._rooms is None or self._rooms[0].shape[-2] < end or self._rooms[0].shape[0] != key_states.shape[0]:
            self._rooms = (
                self._room(self.keys, key_states, start, end),
                self._room(self.values, value_states, start, end),
            )
        for room, new in zip(self._rooms, (key_states, value_states), strict=True):
            room[..., start:end, :] = new
        self.keys, self.values = (room[..., :end, :] for room in self._rooms)
        return self.keys, self.values

    @staticmethod
    def _room(old: Tensor, new: Tensor, start: int, end: int) -> Tensor:
        room = new.new_empty((*new.shape[:-2], _room_columns(end), new.shape[-1]))
        if start:
            room[..., :start, :] = old
        return room

    def trim(self) -> None:
        """Give back room that a tree needed and its prefix does not."""
        end = self.get_seq_length()
        if self._rooms is not None and self._rooms[0].shape[-2] > _room_columns(end):
            keys, values = self.keys, self.values
            self._rooms = (self._room(keys, keys, end, end), self._room(values, values, end, end))
            self.keys, self.values = (room[..., :end, :] for room in self._rooms)

    def replace(self, keys: Tensor, values: Tensor) -> None:
        """Hold these instead."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.keys, self.values, self._rooms = keys, values, None


def _room_columns(end: int) -> int:
    return -(-(end + max(_SPARE_COLUMNS, end // 4)) // _SPARE_COLUMNS) * _SPARE_COLUMNS
