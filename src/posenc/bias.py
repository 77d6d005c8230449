"""Distances as attention sees them: the biases of ALiBi and the buckets of T5.

A distance is the position of a key minus that of a query. Unless positions are given, the last query
stands at the last key: with `q_len` queries and `k_len` keys, query i is at position
``k_len - q_len + i``.
"""

import bisect
import functools
import math
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _checks

Array = npt.NDArray[Any]

# 1 as a fixed-point number: roots and powers of it are right far beyond a double.
_ONE = 1 << 192

# Heads, or buckets: more than any model has. Python calculates each of them, as many in 0.1 s.
_MOST = 1 << 16

# Between positions of at most this magnitude every distance is exact in a double and in an int64.
_REACH = 1 << 52

# Beyond, `_edges` could not tell by doubles where nearly all edges are.
_MOST_DISTANCE = 1 << 32

# An edge in doubles is off by less than 2^-47 of it, most of that from rounding an exponent.
_UNSURE = 2.0**-45

# Axes that NumPy has in all versions, but for two that a result has and its positions have not.
_MOST_AXES = 32 - 2

# Entries of a result that are made at once.
_PIECE = 1 << 16


def alibi_slopes(heads: SupportsIndex) -> npt.NDArray[np.float64]:
    """The slopes of ALiBi, one for each head.

    Press, Smith and Lewis, "Train Short, Test Long" (arXiv:2108.12409), section 3: the powers
    ``2^(-8k/heads)`` for k = 1 ... heads, where `heads` is a power of two. For the others, `get_slopes`
    of ofirpress/attention_with_linear_biases: the slopes of the largest power of two below, then
    every other one, from the first on, of its double.

    Parameters
    ----------
    heads : int
        Number of heads, 1 to 65536.

    Returns
    -------
    ndarray of float64, shape (heads,)
        Each the double nearest to its slope: a power of two where the slope is one.

    Raises
    ------
    TypeError
        If `heads` is not an integer.
    ValueError
        If it is less than 1, or more than 65536.

    Examples
    --------
    >>> import posenc
    >>> posenc.alibi_slopes(6)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625, 0.5       ,
           0.125     ])
    """
    count = _checks.integer("heads", heads, 1, _MOST)
    doublings = count.bit_length() - 1
    whole = 1 << doublings
    ratio = _ONE >> 4  # 2^-4, and after that many roots 2^(-4/whole), the first of twice as many
    for _ in range(doublings):
        ratio = math.isqrt(ratio * _ONE)
    powers = [ratio]
    for _ in range(2 * whole - 1):
        powers.append(powers[-1] * ratio // _ONE)
    out = _arrays.empty((count,), np.dtype(np.float64))
    out[...] = [power / _ONE for power in powers[1::2] + powers[0::2][: count - whole]]
    return out


def alibi_bias(
    heads: SupportsIndex,
    q_len: SupportsIndex | None = None,
    k_len: SupportsIndex | None = None,
    *,
    q_positions: npt.ArrayLike | None = None,
    k_positions: npt.ArrayLike | None = None,
    causal: bool = True,
    dtype: npt.DTypeLike = np.float64,
) -> Array:
    """The biases that ALiBi adds to the scores of attention, ``-slope * |distance|``.

    Press, Smith and Lewis, "Train Short, Test Long" (arXiv:2108.12409), section 3.

    Parameters
    ----------
    heads : int
        Number of heads, 1 to 65536: `alibi_slopes` has their slopes.
    q_len, k_len : int
        Numbers of queries and keys, 0 or more. The last query stands at the last key.
    q_positions : array_like of int, shape (..., q_len), optional
        The queries' positions, instead of the two lengths: of packed documents or of padded
        sequences, as `posenc.positions` makes them. At most 2**52 in magnitude.
    k_positions : array_like of int, shape (..., k_len), optional
        The keys' positions, where they are not those of the queries. Leading axes broadcast.
    causal : bool, default True
        Whether keys ahead of a query are -inf, as in the paper; else they are biased as those
        behind it.
    dtype : {float64, float32, float16, bfloat16}, default float64
        Rounded from float64; 16 bits from float32. Beyond the range of float16 is -inf.

    Returns
    -------
    ndarray of `dtype`, shape (heads, q_len, k_len), or (..., heads, q_len, k_len)
        Fresh, as from `posenc.positional_encoding`, for scores of shape (batch, heads, q_len,
        k_len). With more queries than keys the first stand before all keys, which are ahead of
        them.

    Raises
    ------
    TypeError
        If a number is not an integer, `causal` no bool, or `dtype` no float; or if neither lengths
        nor positions are given.
    ValueError
        If `heads` is less than 1 or more than 65536, or a length is negative or beyond 2**52;
        positions are beyond 2**52, do not broadcast, or come with a length; or the result is beyond
        all memory.
    MemoryError
        If the result is beyond the memory at hand.

    Notes
    -----
    Positions say how far two tokens are apart, not whether one may see the other: padding, and the
    tokens of other documents in the same row, are for the attention mask to hide.

    `build_alibi_tensor` of BLOOM in huggingface/transformers counts by the attention mask too, as
    `posenc.positions.from_mask` does; its biases are these but for a constant in each row of the
    scores, which softmax does not see.

    Examples
    --------
    >>> import posenc
    >>> posenc.alibi_bias(2, 2, 3)[0]
    array([[-0.0625,  0.    ,    -inf],
           [-0.125 , -0.0625,  0.    ]])

    A row padded on the left, and the last query of it alone:

    >>> where = posenc.positions.from_mask([[0, 0, 1, 1, 1]])
    >>> posenc.alibi_bias(2, q_positions=where[:, -1:], k_positions=where)[0, 0]
    array([[-0.125 , -0.125 , -0.125 , -0.0625,  0.    ]])
    """
    count = _checks.integer("heads", heads, 1, _MOST)
    causal = _checks.boolean("causal", causal)
    wanted = _arrays.float_dtype(dtype)

    slopes = functools.cache(alibi_slopes)  # made once all arguments are checked

    def biases(distances: npt.NDArray[np.int64]) -> Array:
        result = np.multiply.outer(slopes(count), -np.abs(distances))
        if causal:
            result[:, distances > 0] = -np.inf
        with np.errstate(over="ignore"):
            return result.astype(_arrays.working(wanted)).astype(wanted)

    return _of_distances(biases, (count,), wanted, q_len, k_len, q_positions, k_positions)


def t5_buckets(
    q_len: SupportsIndex | None = None,
    k_len: SupportsIndex | None = None,
    *,
    q_positions: npt.ArrayLike | None = None,
    k_positions: npt.ArrayLike | None = None,
    bidirectional: bool = True,
    num_buckets: SupportsIndex = 32,
    max_distance: SupportsIndex = 128,
) -> npt.NDArray[np.int64]:
    """The bucket of each distance, by which T5 looks up its learned biases.

    Raffel et al., "Exploring the Limits of Transfer Learning" (arXiv:1910.10683), section 2.1, as in
    `_relative_position_bucket` of google-research/text-to-text-transfer-transformer and
    huggingface/transformers. With ``n = |distance|`` and e half of the buckets of a direction, a
    bucket is n below e, and ``e + floor(e' * log(n / e) / log(max_distance / e))`` from there on,
    where e' are those left; the last one from `max_distance` on.

    Parameters
    ----------
    q_len, k_len : int
        Numbers of queries and keys, 0 or more. The last query stands at the last key.
    q_positions : array_like of int, shape (..., q_len), optional
        The queries' positions, instead of the two lengths: those of `posenc.positions`, or the
        coordinates of boxes on a page. At most 2**52 in magnitude.
    k_positions : array_like of int, shape (..., k_len), optional
        The keys' positions, where they are not those of the queries. Leading axes broadcast.
    bidirectional : bool, default True
        Whether keys ahead of a query have the upper half of the buckets; else all buckets are for
        those behind, and those ahead are in bucket 0.
    num_buckets : int, default 32
        Number of buckets: 2 or more, 4 or more if `bidirectional`, and at most 65536.
    max_distance : int, default 128
        From here on all distances are in the last bucket: more than e, and at most 2**32.

    Returns
    -------
    ndarray of int64, shape (q_len, k_len), or (..., q_len, k_len)
        Fresh, as from `posenc.positional_encoding`.

    Raises
    ------
    TypeError
        If a number is not an integer, or `bidirectional` no bool; or if neither lengths nor
        positions are given.
    ValueError
        If a length is negative or beyond 2**52, or `num_buckets` or `max_distance` is out of its
        bounds; positions are beyond 2**52, do not broadcast, or come with a length; or the result is
        beyond all memory.
    MemoryError
        If the result is beyond the memory at hand.

    Notes
    -----
    Integers are compared where a logarithm could fall on either side of an edge: where edges are
    whole, those of float32 or float64 do.

    `LayoutLMv3Encoder` of huggingface/transformers has these buckets of the tokens' positions, and
    of the left and of the lower sides of their boxes; microsoft/unilm has LayoutLMv2's.

    Examples
    --------
    >>> import posenc
    >>> posenc.t5_buckets(2, 3)
    array([[ 1,  0, 17],
           [ 2,  1,  0]])

    Two packed documents; which of them see each other, the attention mask says:

    >>> posenc.t5_buckets(q_positions=posenc.positions.from_lengths([2, 1]))
    array([[ 0, 17,  0],
           [ 1,  0,  1],
           [ 0, 17,  0]])
    """
    bidirectional = _checks.boolean("bidirectional", bidirectional)
    count = _checks.integer("num_buckets", num_buckets, 4 if bidirectional else 2, _MOST)
    if bidirectional:
        count //= 2
    exact = count // 2
    farthest = _checks.integer("max_distance", max_distance, exact + 1, _MOST_DISTANCE)
    edges = functools.cache(_edges)  # made once all arguments are checked

    def buckets(distances: npt.NDArray[np.int64]) -> Array:
        behind = np.abs(distances) if bidirectional else np.maximum(-distances, 0)
        found = np.searchsorted(edges(count, exact, farthest), behind, side="right")
        if bidirectional:
            found[distances > 0] += count
        return found

    wanted = np.dtype(np.int64)
    return _of_distances(buckets, (), wanted, q_len, k_len, q_positions, k_positions)


def _edges(buckets: int, exact: int, farthest: int) -> list[int]:
    """The least distance of every bucket but the first."""
    edges = list(range(1, exact + 1))
    left = buckets - exact
    for i in range(1, left):
        edge = exact * (farthest / exact) ** (i / left)
        low, high = math.ceil(edge * (1 - _UNSURE)), math.ceil(edge * (1 + _UNSURE))
        if low < high:
            # left * log(n / exact) / log(farthest / exact) >= i, for the least n
            common = math.gcd(i, left)
            power, of_farthest = left // common, i // common
            least = farthest**of_farthest * exact ** (power - of_farthest)
            low += bisect.bisect_left(range(low, high), least, key=lambda n: n**power)
        edges.append(low)
    return edges


def _of_distances(
    values: Callable[[npt.NDArray[np.int64]], Array],
    heads: tuple[int, ...],
    dtype: np.dtype[Any],
    q_len: SupportsIndex | None,
    k_len: SupportsIndex | None,
    q_positions: npt.ArrayLike | None,
    k_positions: npt.ArrayLike | None,
) -> Array:
    """An array of the `values` of all distances, as `alibi_bias` and `t5_buckets` return it.

    Those of distances of any shape have shape ``heads + shape``, and dtype `dtype`.
    """
    if q_positions is None and k_positions is None:
        queries, keys = _length("q_len", q_len), _length("k_len", k_len)
        out = _arrays.empty((*heads, queries, keys), dtype, "q_len and k_len")
        if out.size:
            _by_distance(out, values(_line(queries, keys)))
        return out
    for name, length in (("q_len", q_len), ("k_len", k_len)):
        if length is not None:
            raise ValueError(f"{name} must not be given beside positions, got both")
    if q_positions is None:
        raise ValueError("q_positions must be given where k_positions are, got None")
    at_queries = _positions("q_positions", q_positions)
    at_keys = at_queries if k_positions is None else _positions("k_positions", k_positions)
    leading = _leading(at_queries, at_keys)
    pairs = (*leading, at_queries.shape[-1], at_keys.shape[-1])
    out = _arrays.empty((*leading, *heads, *pairs[-2:]), dtype, "q_positions")
    _by_pair(
        np.moveaxis(out, -3, 0) if heads else out,
        np.broadcast_to(at_queries[..., np.newaxis], pairs),
        np.broadcast_to(at_keys[..., np.newaxis, :], pairs),
        values,
    )
    return out


def _length(name: str, length: SupportsIndex | None) -> int:
    if length is None:
        raise TypeError(f"{name} must be an integer unless q_positions are given, got None")
    return _checks.integer(name, length, 0, _REACH)


def _positions(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Integers with an axis or more, none beyond `_REACH`.

    Copied first, so that nobody can change them after the checks.
    """
    own = np.array(_arrays.integers(name, values))
    if not 1 <= own.ndim <= _MOST_AXES:
        raise ValueError(f"{name} must have 1 to {_MOST_AXES} axes, got {own.ndim}")
    for extreme in (own.min(), own.max()) if own.size else ():
        if not -_REACH <= int(extreme) <= _REACH:
            raise ValueError(f"{name} must be within 2**52 of 0, got {extreme}")
    return own.astype(np.int64, copy=False)


def _leading(at_queries: Array, at_keys: Array) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(at_queries.shape[:-1], at_keys.shape[:-1])
    except ValueError:
        raise ValueError(
            "k_positions must broadcast to q_positions but for the last axis, "
            f"got shapes {at_keys.shape} and {at_queries.shape}"
        ) from None


def _line(queries: int, keys: int) -> npt.NDArray[np.int64]:
    """From the last query to the first key, with one before, to the first query and last key."""
    return np.arange(-keys, queries, dtype=np.int64)


def _by_distance(out: Array, line: Array) -> None:
    """Fill ``out`` (..., queries, keys) with what a line (..., distances) has for each distance."""
    windows = np.lib.stride_tricks.sliding_window_view(line, out.shape[-1], axis=-1)
    out[...] = windows[..., :0:-1, :]


def _by_pair(
    out: Array,
    at_queries: npt.NDArray[np.int64],
    at_keys: npt.NDArray[np.int64],
    values: Callable[[npt.NDArray[np.int64]], Array],
) -> None:
    """``out[...] = values(at_keys - at_queries)``, in halves until there are at most `_PIECE`.

    The last axes of ``out`` are those of the positions.
    """
    if out.size <= _PIECE or at_keys.size < 2:
        out[...] = values(at_keys - at_queries)
        return
    axis = int(np.argmax(at_keys.shape))
    half = at_keys.shape[axis] // 2
    for part in (slice(half), slice(half, None)):
        some: Any = (..., part, *(slice(None),) * (at_keys.ndim - 1 - axis))
        _by_pair(out[some], at_queries[some], at_keys[some], values)
