"""The cache of plans and of what holds them: least recently used, bounded in number and bytes."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import Protocol

    class _Sized(Protocol):
        @property
        def nbytes(self) -> int: ...


T = TypeVar("T", bound="_Sized")

# The most entries, and the most bytes of all together.
_MAX_ENTRIES = 64
_MAX_BYTES = 1 << 25

# Values with their bytes, the most recently used last. There is no lock, as a fork could leave it
# held: every operation is atomic by itself, and at worst two threads make the same value.
_entries: "dict[Hashable, tuple[_Sized, int]]" = {}


def find(key: Hashable) -> Any:
    """What was made for this key, if it is still there, or None."""
    entry = _entries.pop(key, None)
    if entry is None:
        return None
    _entries[key] = entry
    return entry[0]


def get(key: Hashable, make: Callable[[], T]) -> T:
    """What ``make()`` returned for this key, if it is still there, or else returns."""
    value: T | None = find(key)
    if value is not None:
        return value
    value = make()
    size = value.nbytes
    if size <= _MAX_BYTES:
        _entries[key] = value, size
        _evict()
    return value


def _evict() -> None:
    """Remove what was not used for longest, until the rest is within the bounds."""
    excess = nbytes() - _MAX_BYTES
    for oldest in list(_entries):
        if excess <= 0 and len(_entries) <= _MAX_ENTRIES:
            return
        _, size = _entries.pop(oldest, (None, 0))
        excess -= size


def nbytes() -> int:
    """Bytes of all entries."""
    return sum(size for _, size in list(_entries.values()))


def clear() -> None:
    _entries.clear()
