# Sizes and limits of the kernels.

cdef enum:
    # Positions 0 ... 63 are tabulated; beyond, anchors are multiples of 64.
    ANCHOR_SPACING = 64
    # Axes of an array of NumPy, at most.
    MAX_AXES = 64
    # Axes of positions, at most: those of rotary.py.
    MAX_PLANS = 64
    # Parts of a row, at most: the sines and the cosines of every axis of a grid.
    MAX_PARTS = 64
    # Columns whose sines and cosines are taken at a time.
    COLUMNS = 256
    # Bytes of a tile: `rows_of_tile`.
    TILE = 1 << 13
    MAX_TILE = 1 << 18
    # Bytes of scratch that need no memory of their own.
    LOCAL = 1 << 14
    # Bytes of a tile that has the rows of all positions: no more than a level-2 cache.
    MAX_TABLE = 1 << 19
    # Bytes of rounded results that are made at a time before they are streamed.
    ROUNDED_BYTES = 1 << 11
    # Bytes from which a stretch is worth the lines at its ends, which it shares with others.
    MIN_STRETCH = 1 << 10
    # Bytes of a tile of sines and cosines, which rotates every batch entry while it is in cache.
    ROPE_TILE = 1 << 18
    # Bytes of rotated rows that are made in cache and then stored together.
    STRETCH = 1 << 13
    # Bytes of the largest output of the short way, which leaves no work for threads or pieces, and
    # its rows, as it copies the positions, the ids and the mask of each.
    SMALL = 1 << 24
    MAX_COPIED = 1 << 17
    # Axes of a usual array, at most.
    USUAL_AXES = 16
    # Bytes of output up to which the GIL is kept: to release it costs 40 ns, more than the work.
    TINY = 1 << 14
    # Bytes that x is prefetched ahead of what is read.
    AHEAD = 4096
    # Runs that are grouped by anchor at a time; it bounds the scratch.
    WINDOW = 16384
    # Views of rows in a call of `rotate` or `tables`; those of positions follow.
    VIEWS_OF_ROWS = 2
