"""Distances between queries and keys: the biases of ALiBi and the buckets of T5.

A distance is the position of a key minus that of a query. Unless positions are given, the last
query has the position of the last key: with `q_len` queries and `k_len` keys, query i is at
position ``k_len - q_len + i``.
"""

import bisect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _blocks, _checks, _formats
from ._arrays import Array

# ``values(heads, distances)``: what some of the heads have at distances of shape
# (..., 1, queries, keys), as an array of shape (..., heads, queries, keys).
_Values = Callable[[slice, npt.NDArray[np.int64]], Array]

# 1 in fixed point. The 192 bits of a fraction leave roots and powers far more exact than a double.
_ONE = 1 << 192

# More than any model has. Python computes each slope and each edge of a bucket: so many in 0.1 s.
_MAX_HEADS = 1 << 16
_MAX_BUCKETS = 1 << 16

# Between positions of at most this magnitude every distance is exact in a double and in an int64.
_MAX_POSITION = 1 << 52

# The largest `max_distance`. Beyond, doubles could not tell where nearly all edges are: see `_edges`.
_LARGEST_MAX_DISTANCE = 1 << 32

# A bound on the relative error of an edge in doubles, which is below 2^-47: most of that is from
# rounding an exponent.
_EDGE_ERROR = 2.0**-45

# Every version of NumPy has 32 axes, and a result has two more than its positions.
_MAX_POSITION_AXES = 32 - 2


def alibi_slopes(heads: SupportsIndex) -> npt.NDArray[np.float64]:
    """Return the slopes of ALiBi, one for each head.

    If `heads` is a power of two, these are ``2^(-8k/heads)`` for k = 1 ... heads, as in section 3
    of Press, Smith and Lewis, "Train Short, Test Long" (arXiv:2108.12409). Otherwise they are as in
    `get_slopes` of ofirpress/attention_with_linear_biases: all slopes for the largest power of two
    below `heads`, then the first, third, fifth and so on of the slopes for twice that power.

    Parameters
    ----------
    heads : int
        Number of heads, 1 to 65536.

    Returns
    -------
    ndarray of float64, shape (heads,)
        The doubles nearest to the exact slopes.

    Raises
    ------
    TypeError
        If `heads` is not an integer.
    ValueError
        If `heads` is less than 1, or more than 65536.

    Examples
    --------
    >>> import posenc
    >>> posenc.alibi_slopes(6)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625, 0.5       ,
           0.125     ])
    """
    count = _checks.integer("heads", heads, 1, _MAX_HEADS)
    doublings = count.bit_length() - 1
    power_of_two = 1 << doublings
    ratio = _ONE >> 4
    for _ in range(doublings):
        ratio = math.isqrt(ratio * _ONE)
    out = _arrays.empty((count,), np.dtype(np.float64))
    power = ratio  # 2^(-4 / power_of_two), the first slope of twice as many heads
    for i in range(power_of_two):
        if power_of_two + i < count:
            out[power_of_two + i] = power / _ONE
        power = power * ratio // _ONE
        out[i] = power / _ONE
        power = power * ratio // _ONE
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
    """Return the biases that ALiBi adds to the attention scores, ``-slope * |distance|``.

    See section 3 of Press, Smith and Lewis, "Train Short, Test Long" (arXiv:2108.12409).

    Parameters
    ----------
    heads : int
        Number of heads, 1 to 65536. Their slopes are those of `alibi_slopes`.
    q_len, k_len : int
        Numbers of queries and keys, 0 or more. The last query has the position of the last key.
    q_positions : array_like of int, shape (..., q_len), optional
        Positions of the queries, in place of the two lengths, for packed documents or padded
        sequences, as returned by `posenc.positions`. At most 2**52 in magnitude.
    k_positions : array_like of int, shape (..., k_len), optional
        Positions of the keys, if they differ from those of the queries. Leading axes broadcast.
    causal : bool, default True
        Whether the bias of keys ahead of a query is -inf, as in the paper. If False, it is
        symmetric in the distance.
    dtype : {float64, float32, float16, bfloat16}, default float64
        Biases are rounded from float64, those in 16 bits by way of float32. What exceeds the range
        of float16 is -inf.

    Returns
    -------
    ndarray of `dtype`, shape (heads, q_len, k_len), or (..., heads, q_len, k_len)
        A new array, as from `posenc.positional_encoding`, for scores of shape (batch, heads,
        q_len, k_len). If there are more queries than keys, all keys are ahead of the first queries.

    Raises
    ------
    TypeError
        If a number is not an integer, `causal` is not a bool, or `dtype` is not one of the four; or
        if neither lengths nor positions are given.
    ValueError
        If `heads` is less than 1 or more than 65536; a length is negative or exceeds 2**52;
        positions exceed 2**52 in magnitude, do not broadcast, or are given together with a length;
        or the result would have 2**63 bytes or more.
    MemoryError
        If there is not enough memory for the result.

    Notes
    -----
    Positions determine the distance of two tokens, not whether one may attend to the other.
    Padding, and tokens of other documents in the same row, must be hidden by the attention mask.

    `build_alibi_tensor` of BLOOM in huggingface/transformers also derives positions from the
    attention mask, as `posenc.positions.from_mask` does. Its biases differ from these by a constant
    in each row of the scores, which does not change the softmax.

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
    count = _checks.integer("heads", heads, 1, _MAX_HEADS)
    causal = _checks.boolean("causal", causal)
    wanted = _formats.float_dtype(dtype)
    pairs = _pairs(q_len, k_len, q_positions, k_positions)
    out = pairs.empty((count,), wanted)
    if out.size:
        _write_biases(out, pairs, alibi_slopes(count), causal)
    return out


def _write_biases(out: Array, pairs: "_Pairs", slopes: Array, causal: bool) -> None:
    def biases(heads: slice, distances: npt.NDArray[np.int64]) -> Array:
        steps = (-np.abs(distances)).astype(np.float64)  # by way of integers, as -0.0 is no bias
        if causal:
            steps[distances > 0] = -np.inf
        result = slopes[heads, np.newaxis, np.newaxis] * steps
        with np.errstate(over="ignore"):
            rounded = result.astype(_formats.accumulation_dtype(out.dtype), copy=False)
            return rounded.astype(out.dtype, copy=False)

    pairs.write(out, biases)


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
    """Return the bucket of each distance, by which T5 looks up its learned biases.

    The buckets are those of Raffel et al., "Exploring the Limits of Transfer Learning"
    (arXiv:1910.10683), section 2.1, as in `_relative_position_bucket` of
    google-research/text-to-text-transfer-transformer and huggingface/transformers. Let
    ``n = |distance|``, let e be half the number of buckets for a direction, and e' the number of
    the others. The bucket is n if n is less than e, the last one if n is `max_distance` or more,
    and ``e + floor(e' * log(n / e) / log(max_distance / e))`` in between.

    Parameters
    ----------
    q_len, k_len : int
        Numbers of queries and keys, 0 or more. The last query has the position of the last key.
    q_positions : array_like of int, shape (..., q_len), optional
        Positions of the queries, in place of the two lengths: those of `posenc.positions`, or the
        coordinates of boxes on a page. At most 2**52 in magnitude.
    k_positions : array_like of int, shape (..., k_len), optional
        Positions of the keys, if they differ from those of the queries. Leading axes broadcast.
    bidirectional : bool, default True
        Whether the upper half of the buckets is for keys ahead of a query. If False, all buckets
        are for keys behind it, and keys ahead are in bucket 0.
    num_buckets : int, default 32
        Number of buckets: 2 or more, 4 or more if `bidirectional`, and at most 65536.
    max_distance : int, default 128
        The distance from which on all are in the last bucket: more than e, and at most 2**32.

    Returns
    -------
    ndarray of int64, shape (q_len, k_len), or (..., q_len, k_len)
        A new array, as from `posenc.positional_encoding`.

    Raises
    ------
    TypeError
        If a number is not an integer, or `bidirectional` is not a bool; or if neither lengths nor
        positions are given.
    ValueError
        If a length is negative or exceeds 2**52; `num_buckets` or `max_distance` is out of bounds;
        positions exceed 2**52 in magnitude, do not broadcast, or are given together with a length;
        or the result would have 2**63 bytes or more.
    MemoryError
        If there is not enough memory for the result.

    Notes
    -----
    The edges of the buckets are exact: integers are compared where the rounding error of a
    logarithm could matter. With logarithms in float32 or float64 alone, a distance at an edge that
    is an integer may get the wrong bucket.

    `LayoutLMv3Encoder` of huggingface/transformers uses these buckets for the positions of tokens,
    and for the left and the lower sides of their boxes; LayoutLMv2 in microsoft/unilm does so too.

    Examples
    --------
    >>> import posenc
    >>> posenc.t5_buckets(2, 3)
    array([[ 1,  0, 17],
           [ 2,  1,  0]])

    Two packed documents, whose tokens the attention mask must hide from one another:

    >>> posenc.t5_buckets(q_positions=posenc.positions.from_lengths([2, 1]))
    array([[ 0, 17,  0],
           [ 1,  0,  1],
           [ 0, 17,  0]])
    """
    bidirectional = _checks.boolean("bidirectional", bidirectional)
    count = _checks.integer("num_buckets", num_buckets, 4 if bidirectional else 2, _MAX_BUCKETS)
    if bidirectional:
        count //= 2
    exact = count // 2
    last = _checks.integer("max_distance", max_distance, exact + 1, _LARGEST_MAX_DISTANCE)
    pairs = _pairs(q_len, k_len, q_positions, k_positions)
    out = pairs.empty((), np.dtype(np.int64))
    if out.size:
        edges = np.fromiter(_edges(count, exact, last), np.int64, count - 1)
        _write_buckets(out, pairs, edges, bidirectional)
    return out


def _write_buckets(out: Array, pairs: "_Pairs", edges: Array, bidirectional: bool) -> None:
    def buckets(_: slice, distances: npt.NDArray[np.int64]) -> Array:
        behind = np.abs(distances) if bidirectional else np.maximum(-distances, 0)
        result = np.searchsorted(edges, behind, side="right")
        if bidirectional:
            np.add(result, len(edges) + 1, out=result, where=distances > 0)
        return result

    pairs.write(out[..., np.newaxis, :, :], buckets)


def _edges(buckets: int, exact: int, max_distance: int) -> Iterator[int]:
    """The least distance of every bucket but the first."""
    yield from range(1, exact + 1)
    left = buckets - exact
    for i in range(1, left):
        edge = exact * (max_distance / exact) ** (i / left)
        low, high = math.ceil(edge * (1 - _EDGE_ERROR)), math.ceil(edge * (1 + _EDGE_ERROR))
        if low < high:
            # The least n with left * log(n / exact) / log(max_distance / exact) >= i, as powers
            common = math.gcd(i, left)
            power, of_max_distance = left // common, i // common
            least = max_distance**of_max_distance * exact ** (power - of_max_distance)
            low += bisect.bisect_left(range(low, high), least, key=lambda n: n**power)
        yield low


class _Lengths(NamedTuple):
    """All pairs of a query and a key, of consecutive positions: the last query at the last key."""

    queries: int
    keys: int

    def empty(self, heads: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return _arrays.empty((*heads, self.queries, self.keys), dtype, "q_len and k_len")

    def write(self, out: Array, values: _Values) -> None:
        """Fill ``out`` (heads, queries, keys), with the values of each distance of a tile made once."""
        first_query = self.keys - self.queries
        side = _blocks.COMPUTED // 2
        queries, keys = min(self.queries, side), min(self.keys, side)
        heads = _blocks.COMPUTED // (queries + keys)
        for tile in _blocks.tiles(out.shape, (heads, queries, keys)):
            some_heads, rows, columns = tile
            # Every distance key - query of the tile, ascending. Each row is a window of their values,
            # and the last row is the first window.
            line = np.arange(
                columns.start - (first_query + rows.stop - 1),
                columns.stop - (first_query + rows.start),
                dtype=np.int64,
            )
            windows = np.lib.stride_tricks.sliding_window_view(
                values(some_heads, line[np.newaxis, np.newaxis])[:, 0],
                columns.stop - columns.start,
                axis=-1,
            )
            _copy(out[tile], windows[:, ::-1])


class _Positions(NamedTuple):
    """All pairs of a query and a key, of positions (..., queries) and (..., keys)."""

    queries: Array
    keys: Array

    def empty(self, heads: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        leading = np.broadcast_shapes(self.queries.shape[:-1], self.keys.shape[:-1])
        shape = (*leading, *heads, self.queries.shape[-1], self.keys.shape[-1])
        return _arrays.empty(shape, dtype, "q_positions")

    def write(self, out: Array, values: _Values) -> None:
        """Fill ``out`` (..., heads, queries, keys), block by block."""
        leading, (queries, keys) = out.shape[:-3], out.shape[-2:]
        of_queries = self.queries[..., np.newaxis, :, np.newaxis]
        of_keys = self.keys[..., np.newaxis, np.newaxis, :]
        of_queries = np.broadcast_to(of_queries, (*leading, 1, queries, 1))
        of_keys = np.broadcast_to(of_keys, (*leading, 1, 1, keys))
        whole = slice(None)
        for block in _blocks.blocks(out.shape, _blocks.COMPUTED):
            *entries, heads, rows, columns = block
            distances = np.subtract(  # in int64, whatever the positions are
                of_keys[(*entries, whole, whole, columns)],
                of_queries[(*entries, whole, rows, whole)],
                dtype=np.int64,
                casting="unsafe",
            )
            out[block] = values(heads, distances)


_Pairs = _Lengths | _Positions


def _pairs(
    q_len: SupportsIndex | None,
    k_len: SupportsIndex | None,
    q_positions: npt.ArrayLike | None,
    k_positions: npt.ArrayLike | None,
) -> _Pairs:
    """The queries and keys that a call asks for, checked."""
    if q_positions is None and k_positions is None:
        return _Lengths(_check_length("q_len", q_len), _check_length("k_len", k_len))
    for name, length in (("q_len", q_len), ("k_len", k_len)):
        if length is not None:
            raise ValueError(f"{name} must not be given beside positions, got both")
    if q_positions is None:
        raise ValueError("q_positions must be given where k_positions are, got None")
    # Both are converted before either is checked: an object's conversion may change an array.
    queries = _arrays.as_integers("q_positions", q_positions)
    keys = queries if k_positions is None else _arrays.as_integers("k_positions", k_positions)
    _check_positions("q_positions", queries)
    _check_positions("k_positions", keys)
    try:
        np.broadcast_shapes(queries.shape[:-1], keys.shape[:-1])
    except ValueError:
        raise ValueError(
            "k_positions must broadcast to q_positions but for the last axis, "
            f"got shapes {keys.shape} and {queries.shape}"
        ) from None
    return _Positions(queries, keys)


def _check_length(name: str, length: SupportsIndex | None) -> int:
    if length is None:
        raise TypeError(f"{name} must be an integer unless q_positions are given, got None")
    return _checks.integer(name, length, 0, _MAX_POSITION)


def _check_positions(name: str, positions: Array) -> None:
    """ValueError unless the positions have an axis or more, and none is beyond `_MAX_POSITION`."""
    if not 1 <= positions.ndim <= _MAX_POSITION_AXES:
        raise ValueError(f"{name} must have 1 to {_MAX_POSITION_AXES} axes, got {positions.ndim}")
    for extreme in (positions.min(), positions.max()) if positions.size else ():
        if not -_MAX_POSITION <= int(extreme) <= _MAX_POSITION:
            raise ValueError(f"{name} must be within 2**52 of 0, got {extreme}")


def _copy(out: Array, values: Array) -> None:
    for block in _blocks.blocks(out.shape, _blocks.COPIED):
        out[block] = values[block]
