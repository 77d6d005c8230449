"""What the kernels need to know to make rows: a plan, made once and used by many calls."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

# Sines and cosines are evaluated at anchors alone, the multiples of this; the rows between two of
# them follow by angle addition. Rows of positions 0 to 63 are in the plan.
ANCHOR_SPACING: Final = 64


class Plan(NamedTuple):
    """Frequencies, rows that serve every position, and the order of the columns of the output.

    Attributes
    ----------
    quarter_turns : ndarray of float64, shape (4, n)
        Quarter turns per position, as a double-double: the double nearest to each frequency, its
        upper and its lower part by Veltkamp's split, and the frequency less that double.
    table : ndarray of float64, shape (96, 2, n)
        Rows of positions 0, 1, ..., 63, then of 64, 128, ..., 2048: sines and cosines times the
        amplitude, or cosines and sines if `cos_first`.
    offsets : ndarray of float64, shape (64 or more, 2, n)
        Sines and cosines of 0, 1, ..., 63, which added to an anchor's angles give the rows around
        it. The sines have their signs flipped if `cos_first`.
    max_position : float
        The largest position, in magnitude, that the kernels resolve.
    interleaved : bool
        Whether each sine is followed by its cosine; if not, the layout is planar: all sines, then
        all cosines.
    cos_first : bool
        Whether cosines are where the sines would be.
    amplitude : float
        Factor on every row.
    """

    quarter_turns: npt.NDArray[np.float64]
    table: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.float64]
    max_position: float
    interleaved: bool
    cos_first: bool
    amplitude: float

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, of which `offsets` may be `table`."""
        separate = self.offsets is not self.table
        return self.quarter_turns.nbytes + self.table.nbytes + separate * self.offsets.nbytes
