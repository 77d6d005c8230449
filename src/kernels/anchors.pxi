# The rows that others are computed from: anchors and their offsets, by angle addition.

# Fields of a plan, in the order of Plan in _plan.py, which a test holds against these.
cdef enum:
    QUARTER_TURNS
    TABLE
    OFFSETS
    MAX_POSITION
    INTERLEAVED
    COS_FIRST
    AMPLITUDE
    PLAN_FIELDS

# A plan without Python, and room for the row of one more anchor, `cached_anchor`. Planar rows are
# n sines and then n cosines; what is stored has each sine beside its cosine if `interleaved`.
#
# All of them are times `amplitude`. With the cosines first, if `cos_first`, the same operations do,
# from offsets without amplitude and with the sines' signs flipped: cos(a + b) = cos a cos b -
# sin a sin b has the cosine of a where the sine's identity has the sine.
cdef struct PlanView:
    Py_ssize_t n
    bint interleaved
    bint cos_first
    double amplitude
    const double *quarter_turns
    const double *table
    const double *offsets
    double last_tabulated_anchor
    double min_abs_frequency  # 0: not yet known
    double cached_anchor      # NaN: none
    double *anchor


# The position whose sines and cosines a row is computed from. It depends on the row's position
# alone, so a row has the same bits in every slice; it is odd in the position, so PE(-p) mirrors
# PE(p). Up to 63 the anchor is 0 and the row is the table's. Beyond, the anchor is the multiple of
# 64 nearest to it (a tie goes to the smaller), at most 32 away, a third of the position at most, so
# little cancels. A fractional position is its own anchor.
cdef inline double anchor_of(double position) noexcept nogil:
    cdef double size = fabs(position)
    cdef int64_t integral = <int64_t> size  # size <= 2^53: as_positions, check_start of _arrays.py
    if size != integral:
        return position
    if integral < ANCHOR_SPACING:
        return 0.0
    return copysign(
        <double> ((integral + ANCHOR_SPACING // 2 - 1) & ~(<int64_t> ANCHOR_SPACING - 1)), position)


# How many consecutive positions from this one on have its anchor. A fractional one is alone.
cdef inline Py_ssize_t rows_over(double anchor, double position) noexcept nogil:
    cdef double last
    if position != <double> (<int64_t> position):
        return 1
    if anchor == 0.0:
        last = ANCHOR_SPACING - 1
    elif anchor > 0.0:
        last = anchor + ANCHOR_SPACING // 2
    elif anchor == -ANCHOR_SPACING:
        last = anchor
    else:
        last = anchor + (ANCHOR_SPACING // 2 - 1)
    return <Py_ssize_t> (last - position) + 1


# At most so many rows from a position on, to where those over an anchor end: rows are made in pairs
# around it. Fewer rows than between two anchors are left as they are.
cdef inline Py_ssize_t rows_to_anchor_end(double position, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t beyond = (<int64_t> position + count - ANCHOR_SPACING // 2 - 1) & (
        ANCHOR_SPACING - 1)
    return count - beyond if count >= ANCHOR_SPACING else count


cdef const double *anchor_row(PlanView *plan, double anchor) noexcept nogil:
    cdef Py_ssize_t n = plan.n, index, i
    if 0.0 <= anchor <= plan.last_tabulated_anchor:
        index = <Py_ssize_t> anchor // ANCHOR_SPACING  # a row of the table, by the line above
        if anchor == index * ANCHOR_SPACING:
            return plan.table + 2 * n * (index + ANCHOR_SPACING - 1 if index else 0)
    if anchor != plan.cached_anchor:
        if plan.min_abs_frequency == 0.0:
            plan.min_abs_frequency = min_abs(plan.quarter_turns, n)
        sincos(plan.anchor + n if plan.cos_first else plan.anchor,
               plan.anchor if plan.cos_first else plan.anchor + n, anchor, plan.quarter_turns, n,
               plan.min_abs_frequency)
        if plan.amplitude != 1.0:
            for i in range(2 * n):
                plan.anchor[i] = plan.amplitude * plan.anchor[i]
        plan.cached_anchor = anchor
    return plan.anchor


# A table of rows and the quarter turns that it is made from, as in _plan.py.
cdef int check_table(cnp.ndarray table, cnp.ndarray quarter_turns) except -1:
    if not (cnp.PyArray_NDIM(quarter_turns) == 2 and cnp.PyArray_DIM(quarter_turns, 0) == 4
            and cnp.PyArray_NDIM(table) == 3 and cnp.PyArray_DIM(table, 1) == 2
            and cnp.PyArray_DIM(table, 2) == cnp.PyArray_DIM(quarter_turns, 1)
            and cnp.PyArray_TYPE(table) == cnp.NPY_FLOAT64
            and cnp.PyArray_TYPE(quarter_turns) == cnp.NPY_FLOAT64
            and cnp.PyArray_ISCARRAY(table) and cnp.PyArray_ISCARRAY(quarter_turns)):
        raise ValueError("table does not fit quarter_turns")
    return 0
