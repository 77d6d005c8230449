"""What the kernels need to know to make rows."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Encoder(NamedTuple):
    """Frequencies, rows that serve every position, and the order of what is written.

    Attributes
    ----------
    turns : ndarray of float64, shape (4, n)
        Quarter turns per position: the double nearest to each frequency, its upper and its lower
        half, and what the double leaves out.
    table : ndarray of float64, shape (96, 2, n)
        Rows of positions 0, 1, ..., 63, then of 64, 128, ..., 2048: sines and cosines times the
        amplitude, or cosines and sines if `cos_first`.
    offsets : ndarray of float64, shape (64 or more, 2, n)
        What turns a row by 0, 1, ..., 63: sines, with their signs flipped if `cos_first`, and
        cosines.
    limit : float
        The largest position, in magnitude, that the kernels resolve.
    paired : bool
        Whether each sine stands beside its cosine; if not, all of them come first.
    cos_first : bool
        Whether cosines stand where the sines would.
    amplitude : float
        Factor on every row.
    """

    turns: npt.NDArray[np.float64]
    table: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.float64]
    limit: float
    paired: bool
    cos_first: bool
    amplitude: float

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, of which `offsets` may be `table`."""
        apart = self.offsets is not self.table
        return self.turns.nbytes + self.table.nbytes + apart * self.offsets.nbytes
