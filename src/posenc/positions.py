"""Positions of tokens, for packed and padded sequences.

Data loaders describe packing and padding in one of five ways. Each function ``from_...`` converts
one of these to the positions that `posenc.add` and `posenc.encode` take, as a new, C-contiguous
array of int64. `to_lengths` and `to_cu_seqlens` are the inverse.

Examples
--------
>>> import numpy as np
>>> import posenc
>>> packed = np.zeros((5, 4))
>>> encoded = posenc.add(packed, positions=posenc.positions.from_lengths([3, 2]))
>>> bool((encoded[3:] == encoded[:2]).all())
True
"""

from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend, _checks

__all__ = [
    "from_cu_seqlens",
    "from_ids",
    "from_lengths",
    "from_mask",
    "from_segments",
    "to_cu_seqlens",
    "to_lengths",
]

Positions = npt.NDArray[np.int64]

_INT64 = np.dtype(np.int64)
# More than any memory holds, and up to here sums of integers in float64 are exact.
_MAX_TOKENS = 2**53
_MAX_INT32 = 2**31 - 1


def from_lengths(lengths: npt.ArrayLike) -> Positions:
    """Return positions in packed documents of the given lengths.

    Parameters
    ----------
    lengths : array_like of int, shape (documents,)
        Number of tokens of each document, 0 or more.

    Returns
    -------
    ndarray of int64, shape (sum(lengths),)
        0, 1, 2, ... in every document.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If `lengths` do not have one axis, one of them is negative, or their sum is 2**53 or more.
    MemoryError
        If there is not enough memory for the result.

    Notes
    -----
    For loaders that return only ``seq_lens``, as discussed in pytorch/torchtitan#2560.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_lengths([3, 0, 2])
    array([0, 1, 2, 0, 1])
    """
    own = _row("lengths", lengths)
    if own.size and own.min() < 0:
        raise ValueError(f"lengths must be at least 0, got {own.min()} at index {own.argmin()}")
    total = own.sum(dtype=np.float64)
    if total >= _MAX_TOKENS:
        raise ValueError(f"lengths must have a sum below 2**53, got {total:.6g}")
    return _count_within(own.astype(_INT64), int(total))


def from_cu_seqlens(cu_seqlens: npt.ArrayLike) -> Positions:
    """Return positions in packed documents that begin and end at the given offsets.

    Parameters
    ----------
    cu_seqlens : array_like of int, shape (documents + 1,)
        The cumulative lengths that the variable-length kernels of FlashAttention take, usually
        int32: 0, and then the end of each document. Two equal offsets enclose an empty document.

    Returns
    -------
    ndarray of int64, shape (cu_seqlens[-1],)
        0, 1, 2, ... in every document.

    Raises
    ------
    TypeError
        If `cu_seqlens` are not integers.
    ValueError
        If `cu_seqlens` do not have one axis, are empty, do not begin with 0, decrease anywhere, or
        end at 2**53 or more.
    MemoryError
        If there is not enough memory for the result.

    Notes
    -----
    This is the argument ``cu_seqlens_q`` of `flash_attn_varlen_func` in Dao-AILab/flash-attention.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_cu_seqlens([0, 3, 5])
    array([0, 1, 2, 0, 1])
    """
    own = _row("cu_seqlens", cu_seqlens)
    if not own.size:
        raise ValueError("cu_seqlens must have an element or more, got shape (0,)")
    if own[0] != 0:
        raise ValueError(f"cu_seqlens must begin at 0, got {own[0]}")
    falls = own[1:] < own[:-1]
    if falls.any():
        i = int(falls.argmax())
        raise ValueError(
            f"cu_seqlens must not decrease, got {own[i]} and then {own[i + 1]} at index {i + 1}"
        )
    total = int(own[-1])
    if total >= _MAX_TOKENS:
        raise ValueError(f"cu_seqlens must end below 2**53, got {total}")
    ends = own.astype(_INT64)
    return _count_within(ends[1:] - ends[:-1], total)


def from_segments(segments: npt.ArrayLike) -> Positions:
    """Return positions in segments, which are runs of equal ids.

    Parameters
    ----------
    segments : array_like of int or bool, shape (..., length)
        The id of each token's segment, as loaders of packed data return it. Neighbours along the
        last axis with the same id are in the same segment; an id that occurs again later begins a
        new segment. So bools will do, if they alternate. Padding, such as ids of 0, is a segment
        like any other, and its tokens are counted too.

    Returns
    -------
    ndarray of int64, shape of `segments`
        0, 1, 2, ... in every segment.

    Raises
    ------
    TypeError
        If `segments` are neither integers nor bool.
    ValueError
        If `segments` have no axis.

    Notes
    -----
    These are the segment masks of hiyouga/LlamaFactory#7754.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_segments([1, 1, 2, 2, 2, 0])
    array([0, 1, 0, 1, 2, 0])
    """
    ids = _sequences("segments", _arrays.as_integers("segments", segments, bools=True))
    begins = np.empty(ids.shape, np.bool_)
    begins[..., :1] = True
    np.not_equal(ids[..., 1:], ids[..., :-1], out=begins[..., 1:])
    out = _arrays.empty(ids.shape, _INT64, "segments")
    _backend.kernels.count_segments(out, begins)
    return out


def from_mask(mask: npt.ArrayLike) -> Positions:
    """Return positions in padded sequences, from the attention mask.

    Parameters
    ----------
    mask : array_like of bool, or of integers that are 0 and 1, shape (..., length)
        The attention mask of a tokenizer: 1 for a token and 0 for padding, which may be anywhere.

    Returns
    -------
    ndarray of int64, shape of `mask`
        The number of tokens before each token, ``cumsum(mask, -1) - 1``, and 0 for padding.

    Raises
    ------
    TypeError
        If `mask` is neither bool nor integers.
    ValueError
        If `mask` has no axis, or an element that is not 0 or 1.

    Notes
    -----
    With padding on the left, positions do not count from the first column: see
    huggingface/transformers#33095.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_mask([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    array([[0, 0, 0, 1, 2],
           [0, 1, 2, 3, 0]])
    """
    keep = _sequences("mask", _arrays.as_bool_mask("mask", mask))
    return _count_kept("mask", keep, -1, 0)


def from_ids(ids: npt.ArrayLike, padding_idx: SupportsIndex) -> Positions:
    """Return positions in padded sequences of token ids, counted from ``padding_idx + 1``.

    This is the convention of fairseq, RoBERTa and BART, whose tables of positions have a row for
    padding and do not use the rows before it.

    Parameters
    ----------
    ids : array_like of int, shape (..., length)
        Token ids.
    padding_idx : int
        The id of padding, which is also its position.

    Returns
    -------
    ndarray of int64, shape of `ids`
        ``padding_idx + cumsum(ids != padding_idx, -1)``, and `padding_idx` for padding.

    Raises
    ------
    TypeError
        If `ids` or `padding_idx` are not integers.
    ValueError
        If `ids` have no axis, or positions counted from `padding_idx` would overflow int64.

    Notes
    -----
    This is `make_positions` in fairseq/utils.py of facebookresearch/fairseq.

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.from_ids([[5, 3, 6, 7, 1, 1], [1, 1, 5, 3, 6, 7]], padding_idx=1)
    array([[2, 3, 4, 5, 1, 1],
           [1, 1, 2, 3, 4, 5]])
    """
    tokens = _sequences("ids", _arrays.as_integers("ids", ids))
    pad = _checks.integer("padding_idx", padding_idx)
    if not -(2**63) <= pad < 2**63 - tokens.shape[-1]:
        raise ValueError(
            f"padding_idx must leave all positions within int64, got {_checks.shown(pad)}"
        )
    return _count_kept("ids", np.not_equal(tokens, pad, order="C"), pad, pad)


def to_lengths(position_ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the lengths of packed documents from their positions: the inverse of `from_lengths`.

    Parameters
    ----------
    position_ids : array_like of int, shape (length,) or (1, length)
        Positions 0, 1, 2, ... in every document: each 0 begins a document.

    Returns
    -------
    ndarray of int64, shape (documents,)
        Number of tokens of each document, 1 or more. Empty documents have no positions, and so are
        not among them.

    Raises
    ------
    TypeError
        If `position_ids` are not integers.
    ValueError
        If `position_ids` have another shape, or the positions of a document are not 0, 1, 2, ...

    Notes
    -----
    Positions that do not begin at 0, or that have gaps, do not determine where documents begin, and
    are an error (huggingface/transformers#39814). Padding at position 0 cannot be distinguished
    from documents of one token: remove it first, or keep the lengths (hiyouga/LlamaFactory#10452).

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.to_lengths([0, 1, 2, 0, 1])
    array([3, 2])
    """
    return _arrays.aligned_copy(np.diff(_offsets(_packed(position_ids))), _INT64)


def to_cu_seqlens(position_ids: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return the offsets of packed documents from their positions: `from_cu_seqlens` inverted.

    Parameters
    ----------
    position_ids : array_like of int, shape (length,) or (1, length)
        Positions 0, 1, 2, ... in every document: each 0 begins a document.

    Returns
    -------
    ndarray of int32, shape (documents + 1,)
        0, and then the end of each document: the cumulative lengths that the variable-length
        kernels of FlashAttention take. Empty documents have no positions, and so are not among
        them.

    Raises
    ------
    TypeError
        If `position_ids` are not integers.
    ValueError
        If `position_ids` have another shape, are more than int32 can count, or the positions of a
        document are not 0, 1, 2, ...: see `to_lengths`.

    Notes
    -----
    This is the argument ``cu_seqlens_q`` of `flash_attn_varlen_func` in Dao-AILab/flash-attention.
    Positions of several axes, as in multimodal models, are not accepted: they are not one packed
    row (Dao-AILab/flash-attention#2381).

    Examples
    --------
    >>> import posenc
    >>> posenc.positions.to_cu_seqlens([0, 1, 2, 0, 1])
    array([0, 3, 5], dtype=int32)
    """
    row = _packed(position_ids)
    if len(row) > _MAX_INT32:
        raise ValueError(
            f"position_ids must be at most {_MAX_INT32}, which int32 can count, got {len(row)}"
        )
    return _arrays.aligned_copy(_offsets(row), np.dtype(np.int32))


def _row(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Integers with one axis.

    Copied first, so that nobody can change them between the checks and the kernel.
    """
    own = np.array(_arrays.as_integers(name, values))
    if own.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {own.shape}")
    return own


def _sequences(name: str, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not given.ndim:
        raise ValueError(f"{name} must have shape (..., length), got shape ()")
    return given


def _packed(position_ids: npt.ArrayLike) -> npt.NDArray[Any]:
    """Integers of one packed row."""
    given = _arrays.as_integers("position_ids", position_ids)
    if given.ndim == 2 and len(given) == 1:
        given = given[0]
    if given.ndim != 1:
        raise ValueError(
            f"position_ids must have shape (length,) or (1, length), got shape {given.shape}"
        )
    return given


def _offsets(row: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Where the documents begin, and after them where the last one ends."""
    own = row.copy()
    begins = own == 0
    begins[:1] = True
    offsets = np.append(np.flatnonzero(begins), len(own)).astype(_INT64)
    wrong = own != _count_within(np.diff(offsets), len(own))
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(
            f"position_ids must count 0, 1, 2, ... in every document, got {own[i]} at index {i}"
        )
    return offsets


def _count_within(lengths: npt.NDArray[np.int64], total: int) -> Positions:
    out = _arrays.empty((total,), _INT64)
    _backend.kernels.count_within(out, lengths)
    return out


def _count_kept(name: str, keep: npt.NDArray[np.bool_], base: int, pad: int) -> Positions:
    out = _arrays.empty(keep.shape, _INT64, name)
    _backend.kernels.count_kept(out, keep, base, pad)
    return out
