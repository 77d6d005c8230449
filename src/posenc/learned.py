"""Learned absolute positions: `Learned`, added in the same pass as computed encodings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend, _checks, _formats, _fused_add
from ._arrays import Array


class _Source:
    """The rows of a learned table: a `_fused_add.Source`."""

    def __init__(self, table: Array) -> None:
        self.table = self.rows = table
        self.width = int(table.shape[1])
        self.dtype = table.dtype

    @property
    def kernel(self) -> Callable[..., None]:
        return _backend.kernels.gather_add

    @property
    def operand(self) -> Array:
        return _formats.kernel_bits(self.table)

    def as_positions(self, positions: npt.ArrayLike) -> Array:
        return _arrays.as_indices("positions", positions)

    def resolve(
        self, start: int, positions: Array | None, rows: tuple[int, ...], of: str
    ) -> tuple[float, Array | None]:
        count, length = len(self.table), rows[-1]
        if positions is not None:
            indices = _arrays.check_indices("positions", positions, count, "learned positions")
            return 0.0, _arrays.check_broadcast("positions", indices, rows)
        if length > count:
            raise IndexError(
                f"{of} must have at most {count} rows, the number of learned positions, "
                f"got {length}"
            )
        if not 0 <= start <= count - length:
            raise IndexError(
                f"start must leave all {length} positions at least 0 and below {count}, the "
                f"number of learned positions, got {_checks.shown(start)}"
            )
        return float(start), None

    def gathered(self) -> dict[str, Array]:
        return {"the learned positions": self.table}


@dataclass(frozen=True, eq=False)
class Learned:
    """Learned positional embeddings: a table with a row for each position, as in BERT and GPT-2.

    This is the alternative in section 3.5 of Vaswani et al., "Attention Is All You Need"
    (arXiv:1706.03762), which is from Gehring et al., "Convolutional Sequence to Sequence Learning"
    (arXiv:1705.03122).

    Parameters
    ----------
    weight : array_like of float64, float32, float16 or bfloat16, shape (positions, d_model)
        Row p is added at position p. The array is not copied if the kernels can read it in place,
        so that a table may be shared or memory-mapped; later changes to it then take effect.

    Raises
    ------
    TypeError
        If the dtype of `weight` is not one of the four.
    ValueError
        If `weight` does not have two axes.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> learned = posenc.Learned(np.arange(12.0).reshape(6, 2))
    >>> learned.add(np.zeros((1, 3, 2)), start=2)
    array([[[4., 5.],
            [6., 7.],
            [8., 9.]]])
    """

    weight: Array = field(repr=False)
    d_model: int = field(init=False)
    _source: _Source = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weight = _arrays.as_table("weight", _arrays.as_array("weight", self.weight))
        if not _arrays.kernel_ready(weight):
            weight = np.array(weight, weight.dtype.newbyteorder("="), order="C")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "d_model", weight.shape[1])
        # A view of the same memory, whose shape the caller's code cannot change.
        object.__setattr__(self, "_source", _Source(_arrays.as_plain(weight)))

    def __reduce__(self) -> tuple[Callable[[Array], "Learned"], tuple[Array]]:
        # Through the checks: the memory of an unpickled array need not be aligned.
        return type(self), (self._source.table,)

    def __setstate__(self, state: object) -> None:
        raise TypeError("Learned takes no state: it is unpickled by its table")

    def add(
        self,
        x: npt.ArrayLike,
        *,
        start: SupportsIndex = 0,
        positions: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        scale: float = 1.0,
        out: Array | None = None,
        workers: SupportsIndex = 1,
    ) -> Array:
        """Return ``x * scale + weight[positions]``, computed in one pass over memory.

        Parameters
        ----------
        x : array_like of the dtype of `weight`, shape (..., length, d_model)
            Embeddings, as in `posenc.add`.
        start : int, default 0
            Position of the first row of every sequence.
        positions : array_like of int, shape (..., length), optional
            Position of each row, in place of `start`; they broadcast to the rows of `x`.
        mask, scale, out, workers
            As in `posenc.add`.

        Returns
        -------
        ndarray, shape and dtype of `x` (in native byte order)
            `out`, or a new array.

        Raises
        ------
        IndexError
            If a position is negative or beyond the table.
        TypeError
            If the dtype of `x` differs from that of the table, or `positions` are not integers; and
            as for `posenc.add`.
        ValueError
            As for `posenc.add`. Nothing has been written if an error is raised.
        """
        return _fused_add.add(self._source, x, start, positions, mask, scale, out, workers)

    def embed(
        self,
        ids: npt.ArrayLike,
        token_weight: npt.ArrayLike,
        *,
        start: SupportsIndex = 0,
        positions: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        scale: float = 1.0,
        out: Array | None = None,
        workers: SupportsIndex = 1,
    ) -> Array:
        """Return ``token_weight[ids] * scale + weight[positions]``, in one pass over memory.

        Parameters
        ----------
        ids : array_like of int, shape (..., length)
            Token ids, which are indices of rows of `token_weight`.
        token_weight : array_like of the dtype of `weight`, shape (rows, d_model)
            Embeddings of all tokens, as in `posenc.embed`.
        start, positions, mask, scale, out, workers
            As in `add` for the `x` ``token_weight[ids]``.

        Returns
        -------
        ndarray, shape ids.shape + (d_model,)
            `out`, or a new array.

        Raises
        ------
        IndexError
            If an id is negative or beyond `token_weight`, or a position beyond the table.
        TypeError, ValueError
            As for `add` and `posenc.embed`. Nothing has been written if an error is raised.
        """
        return _fused_add.embed(
            self._source,
            ids,
            "token_weight",
            token_weight,
            start,
            positions,
            mask,
            scale,
            out,
            workers,
        )
