"""A cache of what was used last, bounded in number and in bytes."""

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)

# So many conventions may take turns, and what is prepared for them keeps so many bytes.
_MOST = 64
_MOST_BYTES = 1 << 25

# What was used last comes last. No lock guards it, which a fork could leave held: every operation
# is atomic by itself, and two threads at most make the same thing twice.
_entries: dict[Hashable, _Sized] = {}


def get(key: Hashable, make: Callable[[], T]) -> T:
    """What ``make()`` returned for this key, if it is still there, or else returns."""
    value: T | None = _entries.pop(key, None)  # type: ignore[assignment]
    if value is None:
        value = make()
        if value.nbytes > _MOST_BYTES:
            return value
    _entries[key] = value
    for oldest in list(_entries):
        if len(_entries) <= _MOST and used() <= _MOST_BYTES:
            break
        _entries.pop(oldest, None)
    return value


def used() -> int:
    """Bytes of all entries."""
    return sum(value.nbytes for value in list(_entries.values()))


def clear() -> None:
    _entries.clear()
