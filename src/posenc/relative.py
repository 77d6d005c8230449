"""Sinusoidal encodings of distances: `relative_encoding`."""

from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _checks, _pieces
from ._arrays import Array
from .sinusoidal import source_for


def relative_encoding(
    length: SupportsIndex,
    d_model: SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """Return the sinusoidal encodings of all distances in a sequence, in descending order.

    This is the table R of Dai et al., "Transformer-XL" (arXiv:1901.02860), appendix B, extended to
    attention in both directions. Its first `length` rows are the table of the paper, in which
    queries attend only to keys behind them.

    Parameters
    ----------
    length : int
        Number of tokens, 0 or more.
    d_model : int
        Width of the encodings.
    dtype : {float64, float32, float16, bfloat16}, optional
        By default the dtype of `out`, or float64 without `out`.
    out : ndarray of `dtype`, shape (2 * length - 1, d_model), optional
        Where to write the result. It must meet the requirements of `posenc.fill`.
    workers, **convention
        As in `posenc.positional_encoding`.

    Returns
    -------
    ndarray of `dtype`, shape (2 * length - 1, d_model)
        `out`, or a new array. Row r is the encoding of the distance ``length - 1 - r``, query
        minus key, as from `posenc.encode`. For a `length` of 0 there are no rows.

    Raises
    ------
    TypeError
        If `out` is not an array of `dtype`; and as for `posenc.positional_encoding`.
    ValueError
        If `length` is negative, or so large that distances cannot be encoded or the result would
        have 2**63 bytes or more; if `out` has the wrong shape or cannot be written in place; and as
        for `posenc.positional_encoding`. Nothing has been written if an error is raised.
    MemoryError
        If there is not enough memory for the result.

    Notes
    -----
    `RelPositionalEncoding` of facebookresearch/fairseq and
    `Wav2Vec2ConformerRelPositionalEmbedding` of huggingface/transformers have the same rows;
    `PositionalEmbedding` of kimiyoung/transformer-xl has them with ``layout="split"``.

    Examples
    --------
    >>> import posenc
    >>> posenc.relative_encoding(2, 4).round(4)
    array([[ 0.8415,  0.5403,  0.01  ,  1.    ],
           [ 0.    ,  1.    ,  0.    ,  1.    ],
           [-0.8415,  0.5403, -0.01  ,  1.    ]])
    """
    tokens = _checks.integer("length", length, least=0)
    source = source_for(relative_encoding, d_model, convention)
    _arrays.check_start(0, tokens, source.plan.max_position)
    shape = (max(2 * tokens - 1, 0), source.width)
    _arrays.check_size("length", shape, np.dtype(np.float64))
    threads = _pieces.thread_count(workers)
    out, plain = _arrays.prepare_out(out, shape, dtype)
    source.write(plain[::-1], float(min(1 - tokens, 0)), None, threads)
    return out
