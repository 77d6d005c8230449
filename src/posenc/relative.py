"""Sinusoidal encodings of distances: `relative_encoding`."""

from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _checks, _pieces
from .sinusoidal import Array, prepared


def relative_encoding(
    length: SupportsIndex,
    d_model: SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """The sinusoidal encodings of all distances in a sequence, from the farthest behind on.

    The table R of Dai et al., "Transformer-XL" (arXiv:1901.02860), appendix B, for attention in
    both directions: its first `length` rows are that of the paper, which looks back alone.

    Parameters
    ----------
    length : int
        Number of tokens, 0 or more.
    d_model : int
        Width of the encodings.
    dtype : {float64, float32, float16, bfloat16}, optional
        That of `out`, else float64.
    out : ndarray of `dtype`, shape (2 * length - 1, d_model), optional
        Where to put the result, on the terms of `fill`.
    workers, **convention
        As in `posenc.positional_encoding`.

    Returns
    -------
    ndarray of `dtype`, shape (2 * length - 1, d_model)
        `out`, or a fresh array. Row r is the encoding of the distance ``length - 1 - r``, query
        minus key, as `posenc.encode` has it. No tokens have no rows.

    Raises
    ------
    TypeError
        If `out` is not an array of `dtype`; and as `posenc.positional_encoding` does.
    ValueError
        If `length` is negative, or leaves distances beyond those that can be encoded or a result
        beyond all memory; if `out` has another shape or cannot be written in place; and as
        `posenc.positional_encoding` does. Nothing has been written then.
    MemoryError
        If the result is beyond the memory at hand.

    Notes
    -----
    `RelPositionalEncoding` of facebookresearch/fairseq and `Wav2Vec2ConformerRelPositionalEmbedding`
    of huggingface/transformers have the same rows. `PositionalEmbedding` of kimiyoung/transformer-xl
    has them with ``layout="split"``.

    Examples
    --------
    >>> import posenc
    >>> posenc.relative_encoding(2, 4).round(4)
    array([[ 0.8415,  0.5403,  0.01  ,  1.    ],
           [ 0.    ,  1.    ,  0.    ,  1.    ],
           [-0.8415,  0.5403, -0.01  ,  1.    ]])
    """
    tokens = _checks.integer("length", length, least=0)
    source = prepared(relative_encoding, d_model, convention)
    _arrays.check_start(0, tokens, source.plan.max_position)
    shape = (max(2 * tokens - 1, 0), source.width)
    _arrays.addressable("length", shape, np.dtype(np.float64))
    threads = _pieces.count(workers)
    out, plain = _arrays.result(out, shape, dtype)
    source.write(plain[::-1], float(min(1 - tokens, 0)), None, threads)
    return out
