"""The contract that every backend meets. Python checks all of it; the compiled kernels check once
more what costs nanoseconds: axes, shapes, dtypes and widths, but no value of an array.

``out`` and ``x`` have shape (batch, length, d_model), one dtype of float64, float32, float16 and,
for the bits of bfloat16, uint16, in native byte order, aligned, with unit stride on the last axis
and any other strides; elements of ``out`` do not overlap, and ``x`` is ``out`` or apart from it;
d_model is twice the number of the encoder's frequencies. Where there are ``ids``, ``x`` is a table
(m, d_model) apart from ``out``, and a row of ``out`` has to do with ``x[id]``. ``ids``,
``positions`` and ``mask`` have shape (batch, length), unit stride on the last axis and any other.
Every position is within the encoder's limit; where ``positions`` are None, rows are those of
``start``, ``start + 1``, ...; where ``mask`` is False there is no encoding, and ``x * scale``
alone. ``stream`` advises to write past the caches.

In 16 bits, rows are rounded once from float64, and added in float32 to rows in float32 and rounded
once.

The kernels that count tokens, from `runs` on, take C-contiguous arrays alone.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ._encoder import Encoder

def instruction_sets() -> list[str]:
    """The instruction sets beyond the baseline that this processor runs."""

def add_at_once(
    out: object,
    x: object,
    start: object,
    scale: object,
    workers: object,
    encoder: Encoder,
) -> bool:
    """``out = x * scale + PE`` if nothing about it is unusual, whatever the arguments are.

    If not, nothing was written, and it is for the checks in Python to say why. Usual are plain
    C-contiguous arrays of one dtype and shape (batch, length, d_model), at most 16 MB, the same or
    apart, of which ``out`` is writeable; ints and a float; and one worker.
    """

def aligned(
    buffer: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """An array over ``buffer``, from its first multiple of 64 bytes on."""

def tabulate(table: npt.NDArray[np.float64], turns: npt.NDArray[np.float64], reach: float) -> None:
    """All of ``table`` (m, 2, n), and the halves in ``turns`` (4, n) of the frequencies there.

    Positions beyond ``reach`` cannot be resolved and are asked for by nobody: in their place stands
    one that is no NaN.
    """

def fill(
    out: npt.NDArray[Any],
    start: float,
    positions: npt.NDArray[np.float64] | None,
    encoder: Encoder,
    stream: bool,
) -> None:
    """``out = PE``."""

def add(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    ids: npt.NDArray[np.int64] | None,
    start: float,
    positions: npt.NDArray[np.float64] | None,
    mask: npt.NDArray[np.bool_] | None,
    encoder: Encoder,
    stream: bool,
    scale: float,
) -> None:
    """``out = x * scale + PE``, each operation rounded in the dtype."""

def add_rows(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    ids: npt.NDArray[np.int64] | None,
    positions: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_] | None,
    rows: npt.NDArray[Any],
    stream: bool,
    scale: float,
) -> None:
    """``out = x * scale + rows[positions]``, of a table ``rows`` (m, d_model) of the same dtype, or
    beside 16 bits of float32.
    """

def turn_pairs(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    rows: npt.NDArray[Any],
    paired: bool,
    stream: bool,
) -> None:
    """Pairs (a, b) of ``x`` as (a * c - b * s, b * c + a * s), further columns as they are.

    ``out`` and ``x`` have shape (batch, length, width); ``rows`` has (batch / k, length, 2 * n),
    each item for k of ``x`` in turn, and 2 * n <= width: n sines s, then n cosines c, in the dtype,
    float32 for 16 bits. The columns of a pair are beside each other if ``paired``, else n apart.
    Each operation is rounded in the dtype of ``rows``, and 16 bits once more at the end.
    """

def tables(
    cosines: npt.NDArray[Any],
    sines: npt.NDArray[Any],
    start: float,
    positions: npt.NDArray[np.float64] | None,
    encoder: Encoder,
    paired: bool,
) -> None:
    """Cosines and sines of an encoder that is not paired, both (batch, length, 2 * n), each value
    twice: beside each other if ``paired``, else n apart.
    """

def runs(out: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    """``out`` (sum(lengths),) counts 0, 1, ... for each of ``lengths`` (m,), which are not negative."""

def segments(out: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]) -> None:
    """``out`` (..., length) counts 0, 1, ... from every True in ``begins`` of the same shape on.
    Rows begin with True.
    """

def counts(out: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_], base: int, pad: int) -> None:
    """``out = base + cumsum(keep, -1)`` where ``keep``, else ``pad``; both (..., length)."""
