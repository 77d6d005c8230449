"""Distances as attention sees them: the biases of ALiBi and the buckets of T5.

A distance is the position of a key minus that of a query, and the last query stands at the last
key: with `q_len` queries and `k_len` keys, query i is at position ``k_len - q_len + i``.
"""

import bisect
import math
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays

Array = npt.NDArray[Any]

# 1 as a fixed-point number: roots and powers of it are right far beyond a double.
_ONE = 1 << 192


def alibi_slopes(heads: SupportsIndex) -> npt.NDArray[np.float64]:
    """The slopes of ALiBi, one for each head.

    Press, Smith and Lewis, "Train Short, Test Long" (arXiv:2108.12409), section 3: the powers
    ``2^(-8k/heads)`` for k = 1 ... heads, where `heads` is a power of two. For the others, `get_slopes`
    of ofirpress/attention_with_linear_biases: the slopes of the largest power of two below, then
    every other one, from the first on, of its double.

    Parameters
    ----------
    heads : int
        Number of heads, 1 or more.

    Returns
    -------
    ndarray of float64, shape (heads,)
        Each the double nearest to its slope: a power of two where the slope is one.

    Raises
    ------
    TypeError
        If `heads` is not an integer.
    ValueError
        If it is less than 1.

    Examples
    --------
    >>> import posenc
    >>> posenc.alibi_slopes(6)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625, 0.5       ,
           0.125     ])
    """
    count = _arrays.integer("heads", heads, least=1)
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
    q_len: SupportsIndex,
    k_len: SupportsIndex,
    *,
    causal: bool = True,
    dtype: npt.DTypeLike = np.float64,
) -> Array:
    """The biases that ALiBi adds to the scores of attention, ``-slope * |distance|``.

    Press, Smith and Lewis, "Train Short, Test Long" (arXiv:2108.12409), section 3.

    Parameters
    ----------
    heads : int
        Number of heads, 1 or more: `alibi_slopes` has their slopes.
    q_len, k_len : int
        Numbers of queries and keys, 0 or more. The last query stands at the last key.
    causal : bool, default True
        Whether keys ahead of a query are -inf, as in the paper; else they are biased as those
        behind it.
    dtype : {float64, float32, float16, bfloat16}, default float64
        Rounded from float64; 16 bits from float32. Beyond the range of float16 is -inf.

    Returns
    -------
    ndarray of `dtype`, shape (heads, q_len, k_len)
        Fresh, as from `posenc.positional_encoding`. With more queries than keys the first stand
        before all keys, which are ahead of them.

    Raises
    ------
    TypeError
        If a number is not an integer, `causal` no bool, or `dtype` no float.
    ValueError
        If `heads` is less than 1, or a length negative.

    Examples
    --------
    >>> import posenc
    >>> posenc.alibi_bias(2, 2, 3)[0]
    array([[-0.0625,  0.    ,    -inf],
           [-0.125 , -0.0625,  0.    ]])
    """
    slopes = alibi_slopes(heads)
    causal = _arrays.boolean("causal", causal)
    queries, keys = _lengths(q_len, k_len)
    out = _arrays.empty((len(slopes), queries, keys), _arrays.float_dtype(dtype))
    distances = _distances(queries, keys)
    biases = slopes[:, np.newaxis] * -np.abs(distances)
    if causal:
        biases[:, distances > 0] = -np.inf
    with np.errstate(over="ignore"):
        biases = biases.astype(_arrays.working(out.dtype)).astype(out.dtype)
    return _by_distance(out, biases)


def t5_buckets(
    q_len: SupportsIndex,
    k_len: SupportsIndex,
    *,
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
    bidirectional : bool, default True
        Whether keys ahead of a query have the upper half of the buckets; else all buckets are for
        those behind, and those ahead are in bucket 0.
    num_buckets : int, default 32
        Number of buckets: 2 or more, 4 or more if `bidirectional`.
    max_distance : int, default 128
        From here on all distances are in the last bucket: more than e.

    Returns
    -------
    ndarray of int64, shape (q_len, k_len)
        Fresh, as from `posenc.positional_encoding`.

    Raises
    ------
    TypeError
        If a number is not an integer, or `bidirectional` no bool.
    ValueError
        If a length is negative, or `num_buckets` or `max_distance` is too small.

    Notes
    -----
    Integers are compared, no logarithms: where an edge is whole, logarithms of float32 or float64
    may land on either side of it.

    Examples
    --------
    >>> import posenc
    >>> posenc.t5_buckets(2, 3)
    array([[ 1,  0, 17],
           [ 2,  1,  0]])
    """
    queries, keys = _lengths(q_len, k_len)
    bidirectional = _arrays.boolean("bidirectional", bidirectional)
    buckets = _arrays.integer("num_buckets", num_buckets, least=4 if bidirectional else 2)
    if bidirectional:
        buckets //= 2
    exact = buckets // 2
    farthest = _arrays.integer("max_distance", max_distance, least=exact + 1)
    out = _arrays.empty((queries, keys), np.dtype(np.int64))
    distances = _distances(queries, keys)
    behind = np.abs(distances) if bidirectional else np.maximum(-distances, 0)
    edges = _edges(buckets, exact, farthest, largest=max(queries, keys, 1))
    found = np.searchsorted(edges, behind, side="right")
    if bidirectional:
        found[distances > 0] += buckets
    return _by_distance(out, found)


def _edges(buckets: int, exact: int, farthest: int, largest: int) -> list[int]:
    """The least distance of every bucket but the first, as far as it is at most ``largest``."""
    edges = list(range(1, min(exact, largest) + 1))
    left = buckets - exact
    for i in range(1, left):
        # left * log(n / exact) / log(farthest / exact) >= i, for the least n
        least = farthest**i * exact ** (left - i)
        span = range(edges[-1], largest + 1)
        found = bisect.bisect_left(span, least, key=lambda n: n**left)
        if found == len(span):
            break
        edges.append(span[found])
    return edges


def _lengths(q_len: SupportsIndex, k_len: SupportsIndex) -> tuple[int, int]:
    return _arrays.integer("q_len", q_len, least=0), _arrays.integer("k_len", k_len, least=0)


def _distances(queries: int, keys: int) -> npt.NDArray[np.int64]:
    """From the last query to the first key, with one before, to the first query and last key."""
    return np.arange(-keys, queries)


def _by_distance(out: Array, line: Array) -> Array:
    """Fill ``out`` (..., queries, keys) with what a line (..., distances) has for each distance."""
    windows = np.lib.stride_tricks.sliding_window_view(line, out.shape[-1], axis=-1)
    out[...] = windows[..., :0:-1, :]
    return out
