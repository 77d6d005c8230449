"""One token: every call on one row, beside what a user writes who has a table ready."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import posenc

D_MODEL, AT, SCALE = 512, 77, np.float32(32)
HEADS = (1, 32, 1, 128)

Call = Callable[[], Any]


class Alternative(NamedTuple):
    """In NumPy, also as it is written; and a function of torch_rivals.py with its arguments."""

    numpy: str
    call: Call
    torch: tuple[Any, ...]
    error: float = 0.0  # of either, where they round in another way


class Token(NamedTuple):
    """A call, also as it is written; `reset` before each where they change what they read."""

    written: str
    call: Call
    instead: Alternative
    reset: Call = lambda: None


def tokens() -> list[Token]:
    return [*_encodings(), *_additions(), *_rotations()]


def _encodings() -> list[Token]:
    prepared = posenc.Sinusoidal(D_MODEL)
    table = posenc.positional_encoding(128, D_MODEL, dtype=np.float32)
    row, out = table[AT : AT + 1].copy(), np.ones((1, D_MODEL), np.float32)
    at = np.array([AT])

    def copied() -> Any:
        np.copyto(out, row)
        return out

    def taken() -> Any:
        return np.take(table, at, axis=0, out=out, mode="clip")

    copy = Alternative("np.copyto(out, row)", copied, ("copy", row, out))
    new = Alternative("row.copy()", row.copy, ("copy", row, None))
    written = "np.take(table, positions, axis=0, out=out, mode='clip')"
    take = Alternative(written, taken, ("gather", table, at, out))
    single = np.float32
    return [
        Token("Sinusoidal(d).fill(out, start)", lambda: prepared.fill(out, start=AT), copy),
        Token(
            "Sinusoidal(d).table(1, start)", lambda: prepared.table(1, start=AT, dtype=single), new
        ),
        Token(
            "Sinusoidal(d).encode(positions, out=out)", lambda: prepared.encode(at, out=out), take
        ),
        Token("posenc.fill(out, start)", lambda: posenc.fill(out, start=AT), copy),
        Token(
            "posenc.positional_encoding(1, d, start)",
            lambda: posenc.positional_encoding(1, D_MODEL, start=AT, dtype=single),
            new,
        ),
        Token(
            "posenc.encode(positions, d, out=out)",
            lambda: posenc.encode(at, D_MODEL, out=out),
            take,
        ),
    ]


def _additions() -> list[Token]:
    table = posenc.positional_encoding(128, D_MODEL, dtype=np.float32)
    row, at, mask = table[AT : AT + 1].copy(), np.array([[AT]]), np.array([[True]])
    x, y, out = np.ones((3, 1, 1, D_MODEL), np.float32)
    x16, row16, out16 = (array.astype(np.float16) for array in (x, row, out))
    weight, ids = np.ones((1000, D_MODEL), np.float32), np.array([[5]])
    prepared, learned, scale = posenc.Sinusoidal(D_MODEL), posenc.Learned(table), float(SCALE)
    add, embed, learned_add = prepared.add, prepared.embed, learned.add

    sums = Alternative(
        "np.add(x, row, out=out)",
        lambda: np.add(x, row, out=out),
        ("add", x, row, None, 1.0, out),
    )
    gathers = Alternative(
        "np.add(x, table[positions], out=out)",
        lambda: np.add(x, table[at], out=out),
        ("add", x, table, at, 1.0, out),
    )
    embeds = Alternative(
        "np.add(weight[ids] * scale, row, out=out)",
        lambda: np.add(weight[ids] * SCALE, row, out=out),
        ("embed", ids, weight, row, scale, out),
        error=1e-5,
    )
    in_place = Alternative(
        "np.add(x, row, out=x)",
        lambda: np.add(y, row, out=y),
        ("add", y, row, None, 1.0, y),
    )
    new = Alternative("x + row", lambda: x + row, ("add", x, row, None, 1.0, None))
    scales = Alternative(
        "np.add(x * scale, row, out=out)",
        lambda: np.add(x * SCALE, row, out=out),
        ("add", x, row, None, scale, out),
        error=1e-5,
    )
    masks = Alternative(
        "np.add(x, row * mask[..., None], out=out)",
        lambda: np.add(x, row * mask[..., None], out=out),
        ("add_masked", x, row, mask, out),
    )
    embeds_new = Alternative(
        "weight[ids] * scale + row",
        lambda: weight[ids] * SCALE + row,
        ("embed", ids, weight, row, scale, None),
        error=1e-5,
    )
    sums16 = Alternative(
        "np.add(x, row, out=out)",
        lambda: np.add(x16, row16, out=out16),
        ("add", x16, row16, None, 1.0, out16),
        error=2e-3,
    )
    return [
        Token("Sinusoidal(d).add(x, start, out=out)", lambda: add(x, start=AT, out=out), sums),
        Token(
            "Sinusoidal(d).add(x, start, out=x)",
            lambda: add(y, start=AT, out=y),
            in_place,
            lambda: y.fill(1),
        ),
        Token("Sinusoidal(d).add(x, start)", lambda: add(x, start=AT), new),
        Token(
            "Sinusoidal(d).add(x, start, scale=scale, out=out)",
            lambda: add(x, start=AT, scale=scale, out=out),
            scales,
        ),
        Token(
            "Sinusoidal(d).add(x, positions=positions, out=out)",
            lambda: add(x, positions=at, out=out),
            gathers,
        ),
        Token(
            "Sinusoidal(d).add(x, start, mask=mask, out=out)",
            lambda: add(x, start=AT, mask=mask, out=out),
            masks,
        ),
        Token(
            "Sinusoidal(d).add(x, start, out=out) in float16",
            lambda: add(x16, start=AT, out=out16),
            sums16,
        ),
        Token(
            "Sinusoidal(d).embed(ids, weight, start, scale=scale, out=out)",
            lambda: embed(ids, weight, start=AT, scale=scale, out=out),
            embeds,
        ),
        Token(
            "Sinusoidal(d).embed(ids, weight, start, scale=scale)",
            lambda: embed(ids, weight, start=AT, scale=scale),
            embeds_new,
        ),
        Token(
            "Learned(table).add(x, start, out=out)",
            lambda: learned_add(x, start=AT, out=out),
            sums,
        ),
        Token(
            "Learned(table).add(x, positions=positions, out=out)",
            lambda: learned_add(x, positions=at, out=out),
            gathers,
        ),
        Token("posenc.add(x, start, out=out)", lambda: posenc.add(x, start=AT, out=out), sums),
        Token(
            "posenc.embed(ids, weight, start, scale=scale, out=out)",
            lambda: posenc.embed(ids, weight, start=AT, scale=scale, out=out),
            embeds,
        ),
    ]


def _rotations() -> list[Token]:
    """Queries of one token, 32 heads."""
    return [token for layout in ("half", "interleaved") for token in _rotations_in(layout)]


def _rotations_in(layout: str) -> list[Token]:
    x, y, out = np.ones((3, *HEADS), np.float32)
    at = np.array([AT])
    rotary = posenc.Rotary(HEADS[-1], layout=layout)  # type: ignore[arg-type]
    cos, sin = tables = rotary.tables(128, dtype=np.float32)
    rows = cos[AT : AT + 1].copy(), sin[AT : AT + 1].copy()
    rotate = rotary.rotate

    def alternative(numpy: str, x: Any, tables: Any, at: Any, out: Any) -> Alternative:
        cos, sin = tables
        call = numpy_rotation(layout, x, cos, sin, at, out)
        return Alternative(numpy, call, (f"rotate_{layout}", x, cos, sin, at, out), error=1e-6)

    name, numpy = f"Rotary(128, {layout!r}).rotate", "a * cos - b * sin, b * cos + a * sin"
    into = alternative(numpy, x, rows, None, out)
    return [
        Token(f"{name}(x, start, out=out)", lambda: rotate(x, start=AT, out=out), into),
        Token(
            f"{name}(x, start, out=x)",
            lambda: rotate(y, start=AT, out=y),
            alternative(numpy, y, rows, None, y),
            lambda: y.fill(1),
        ),
        Token(
            f"{name}(x, start)",
            lambda: rotate(x, start=AT),
            alternative(numpy, x, rows, None, None),
        ),
        Token(
            f"{name}(x, positions=positions, out=out)",
            lambda: rotate(x, positions=at, out=out),
            alternative(f"{numpy} of cos[positions], sin[positions]", x, tables, at, out),
        ),
    ]


def numpy_rotation(layout: str, x: Any, cos: Any, sin: Any, at: Any, out: Any) -> Call:
    """The two columns (a, b) of every pair of x, with the tables of `Rotary.tables`."""
    half = x.shape[-1] // 2
    interleaved = layout == "interleaved"
    first, second = (np.s_[0::2], np.s_[1::2]) if interleaved else (np.s_[:half], np.s_[half:])
    cosines, sines = cos[..., first].copy(), sin[..., first].copy()

    def call() -> Any:
        c, s = (cosines, sines) if at is None else (cosines[at], sines[at])
        to = np.empty_like(x) if out is None else out
        a, b = x[..., first], x[..., second]
        to[..., first], to[..., second] = a * c - b * s, b * c + a * s
        return to

    return call
