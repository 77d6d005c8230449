# Rotary position embeddings: pairs of columns are rotated by the sines and cosines of a tile, which
# is made once for all batch entries that share its positions.

# The pairs that one axis of positions rotates, NULL for all, and the plan of their rows.
cdef struct AxisPlan:
    PlanView plan
    const int64_t *pairs

# A call of `rotate` or `tables`. Its views are the output, the input (or the second output), and
# the positions of each axis.
cdef struct Rope:
    Walk walk
    View *views
    AxisPlan *axes
    int count                 # of axes
    bint positioned           # or else the rows are those of start, start + 1, ...
    bint inverse
    bint interleaved
    double start
    Py_ssize_t n              # pairs of all axes
    Py_ssize_t group_size     # consecutive batch entries that share their positions
    Py_ssize_t tile_rows
    const Format *format
    void *memory
    void *tile
    void *axis_tile           # the same rows, of the pairs of one axis
    void *row                 # a row, widened or narrowed
    char *streamed            # a row to be stored by non-temporal stores, NULL for none
    Window window


# The sines and cosines of some pairs for the rows `row` to row + rows of some groups. As these are
# rows of `real`, with two columns for each frequency, they need no staging.
cdef void tabulate_axis(Rope *rope, int axis, real *to, Py_ssize_t group, Py_ssize_t groups,
                        Py_ssize_t row, Py_ssize_t rows) noexcept nogil:
    cdef PlanView *plan = &rope.axes[axis].plan
    cdef Py_ssize_t width = 2 * plan.n, i
    cdef Target target
    cdef Scratch none
    none.tabulated = NAN
    target.stride = width * sizeof(real)
    target.x_stride = 0
    target.width = width
    target.format = NULL
    target.scale = 1.0
    target.adds = target.streams = False
    target.way = DIRECT
    if not rope.positioned:
        encode_rows(<char *> to, NULL, plan, &target, NULL, rope.start + row, rows, to)
        return
    for i in range(groups):
        seek(&rope.walk, (group + i) * rope.group_size)
        group_rows(&rope.window, <char *> (to + i * rows * width), NULL, NULL,
                   (<const double *> rope.views[VIEWS_OF_ROWS + axis].entry) + row, 0.0, NULL, rows,
                   plan, &target, &none, to)
    flush_window(&rope.window, plan, &target, &none, to)


# The same for the pairs of all axes, planar.
cdef void tabulate_rope(Rope *rope, real *tile, Py_ssize_t group, Py_ssize_t groups,
                        Py_ssize_t row, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t n = rope.n, axis_n, r, i
    cdef const int64_t *pairs
    cdef const real *row_of_axis
    cdef real *to
    cdef int axis
    for axis in range(rope.count):
        pairs = rope.axes[axis].pairs
        if pairs is NULL:
            tabulate_axis(rope, axis, tile, group, groups, row, rows)
            continue
        tabulate_axis(rope, axis, <real *> rope.axis_tile, group, groups, row, rows)
        axis_n = rope.axes[axis].plan.n
        for r in range(groups * rows):
            row_of_axis = <real *> rope.axis_tile + r * 2 * axis_n
            to = tile + r * 2 * n
            for i in range(axis_n):
                to[pairs[i]] = row_of_axis[i]  # pairs[i] < n: `check_pairs`
                to[n + pairs[i]] = row_of_axis[axis_n + i]
    if rope.inverse:
        for r in range(groups * rows):
            for i in range(n):
                tile[r * 2 * n + i] = -tile[r * 2 * n + i]


cdef inline void rotate_columns(real *out, const real *x, const real *row, Py_ssize_t n,
                                bint interleaved) noexcept nogil:
    if real is float:
        if interleaved:
            rotate_interleaved_float(out, x, row, row + n, n)
        else:
            rotate_half_float(out, x, row, row + n, n)
    else:
        if interleaved:
            rotate_interleaved_double(out, x, row, row + n, n)
        else:
            rotate_half_double(out, x, row, row + n, n)


# The first 2 * n columns of a row; those of a 16-bit format in float, widened.
cdef inline void rotate_row(char *out, const char *x, const real *row, Py_ssize_t n,
                            bint interleaved, const Format *format,
                            void *widened) noexcept nogil:
    if format is not NULL and real is float:
        format.widen(<float *> widened, x, 2 * n)
        rotate_columns(<real *> widened, <real *> widened, row, n, interleaved)
        format.narrow(out, <float *> widened, 2 * n)
    else:
        rotate_columns(<real *> out, <const real *> x, row, n, interleaved)


# Rotated rows are stored here: they are made in place, or made in `streamed` and copied from there
# with non-temporal stores.
cdef void rotate_rows(Rope *rope, const real *tile, Py_ssize_t row, Py_ssize_t rows,
                      Py_ssize_t size, Py_ssize_t rotated) noexcept nogil:
    cdef Py_ssize_t stride = rope.views[OUT].row_stride, x_stride = rope.views[X].row_stride
    cdef Py_ssize_t n = rope.n, r
    cdef bint interleaved = rope.interleaved
    cdef const Format *format = rope.format
    cdef const char *x = rope.views[X].entry + row * x_stride
    cdef char *out = rope.views[OUT].entry + row * stride
    cdef char *streamed = rope.streamed
    cdef char *made
    for r in range(rows):
        made = out if streamed is NULL or out == x else streamed
        rotate_row(made, x, tile, n, interleaved, format, rope.row)
        if rotated < size and made != x:
            memcpy(made + rotated, x + rotated, size - rotated)
        if made != out:
            stream_copy(out, made, size)
        x += x_stride
        out += stride
        tile += 2 * n


# Each value of a planar row twice: in both halves of the output, or in adjacent columns if
# `interleaved`.
cdef inline void repeat_values(char *out, const char *values, Py_ssize_t n, Py_ssize_t itemsize,
                               bint interleaved) noexcept nogil:
    if interleaved:
        repeat_interleaved(out, values, n, itemsize)
    else:
        memcpy(out, values, n * itemsize)
        memcpy(out + n * itemsize, values, n * itemsize)


cdef void repeat_rows(Rope *rope, const real *tile, Py_ssize_t row, Py_ssize_t rows,
                      Py_ssize_t itemsize) noexcept nogil:
    cdef View *cosines = &rope.views[OUT]
    cdef View *sines = &rope.views[X]
    cdef Py_ssize_t n = rope.n, r
    cdef const char *values
    for r in range(rows):
        values = <const char *> (tile + r * 2 * n)
        if rope.format is not NULL and real is double:
            rope.format.round(rope.row, <const double *> values, 2 * n)
            values = <const char *> rope.row
        repeat_values(sines.entry + (row + r) * sines.row_stride, values, n, itemsize,
                      rope.interleaved)
        repeat_values(cosines.entry + (row + r) * cosines.row_stride, values + n * itemsize, n,
                      itemsize, rope.interleaved)


# The rows of a rectangle, tile by tile: a tile has some rows of a group, or all of several groups.
cdef void rope_rectangle(Rope *rope, const Rectangle *rectangle, bint rotates, Py_ssize_t size,
                         Py_ssize_t itemsize, real *tile) noexcept nogil:
    cdef Py_ssize_t group_size = rope.group_size, end = rectangle.entry + rectangle.entries
    cdef Py_ssize_t groups = (end - 1) // group_size + 1, stop = rectangle.row + rectangle.rows
    cdef Py_ssize_t row, rows, group, count, entry, first
    cdef const real *of_group
    for row from rectangle.row <= row < stop by rope.tile_rows:
        rows = min(stop - row, rope.tile_rows)
        group = rectangle.entry // group_size
        while group < groups:
            count = min(groups - group, max(rope.tile_rows // rows, <Py_ssize_t> 1))
            tabulate_rope(rope, tile, group, count, row, rows)
            first = max(group * group_size, rectangle.entry)
            seek(&rope.walk, first)
            for entry in range(first, min((group + count) * group_size, end)):
                of_group = tile + (entry // group_size - group) * rows * 2 * rope.n
                if rotates:
                    rotate_rows(rope, of_group, row, rows, size, 2 * rope.n * itemsize)
                else:
                    repeat_rows(rope, of_group, row, rows, itemsize)
                advance(&rope.walk)
            group += count


cdef void rope_range(Rope *rope, bint rotates, Py_ssize_t size, Py_ssize_t itemsize,
                     Py_ssize_t first, Py_ssize_t stop, real *tile) noexcept nogil:
    cdef Rectangle rectangle
    while first < stop:
        rectangle = next_rectangle(&rope.walk, &first, stop)
        rope_rectangle(rope, &rectangle, rotates, size, itemsize, tile)
    if rope.streamed is not NULL:
        stream_fence()


# The plan and the pairs of each axis.
cdef int view_axes(Rope *rope, tuple plans, Py_ssize_t width) except -1:
    cdef tuple of_axis  # what is in it lives as long as `plans`
    cdef cnp.ndarray pairs
    cdef int axis
    rope.n = 0
    for axis in range(rope.count):
        of_axis = plans[axis]
        pairs, plan = of_axis
        view_plan(&rope.axes[axis].plan, plan)
        if rope.axes[axis].plan.interleaved:
            refuse("plans")
        rope.axes[axis].pairs = NULL
        rope.n += rope.axes[axis].plan.n
        if pairs is not None:
            if not (is_of(pairs, cnp.NPY_INT64) and cnp.PyArray_ISCARRAY_RO(pairs)
                    and cnp.PyArray_SIZE(pairs) == rope.axes[axis].plan.n):
                refuse("plans")
            rope.axes[axis].pairs = <const int64_t *> cnp.PyArray_DATA(pairs)
        elif rope.count > 1:
            refuse("plans")
    if not 0 < 2 * rope.n <= width:
        refuse("plans")
    check_pairs(rope)
    return 0


# Every pair of the row belongs to one axis: there are as many numbers as pairs, and none twice.
cdef int check_pairs(const Rope *rope) except -1:
    cdef bytearray taken = bytearray(rope.n)
    cdef const int64_t *pairs
    cdef Py_ssize_t i
    cdef int axis
    for axis in range(rope.count):
        pairs = rope.axes[axis].pairs
        if pairs is NULL:
            continue
        for i in range(rope.axes[axis].plan.n):
            if not 0 <= pairs[i] < rope.n or taken[pairs[i]]:
                refuse("plans")
            taken[pairs[i]] = 1
    return 0


# Consecutive batch entries that share their positions: all of them where none are given.
cdef Py_ssize_t shared_entries(const Rope *rope) noexcept:
    cdef const Walk *walk = &rope.walk
    cdef Py_ssize_t shared = 1
    cdef int axis, v
    for axis in range(walk.axes - 1, -1, -1):
        for v in range(VIEWS_OF_ROWS, walk.count):
            if walk.views[v].strides[axis] != 0:
                return shared
        shared *= walk.shape[axis]
    return shared


cdef int allocate_rope(Rope *rope, Py_ssize_t width, size_t itemsize, bint stream,
                       Py_ssize_t rows) except -1:
    cdef size_t tile = 2 * rope.n * itemsize, axis_tile = 0, anchors = 0
    cdef size_t row = width * sizeof(double)
    cdef Py_ssize_t rows_at_once, max_runs, widest = 0
    cdef char *free_scratch
    cdef int axis
    for axis in range(rope.count):
        anchors += align_up(2 * rope.axes[axis].plan.n * sizeof(double))
        widest = max(widest, rope.axes[axis].plan.n)
    rope.tile_rows = max(ROPE_TILE // tile // ANCHOR_SPACING, <size_t> 1) * ANCHOR_SPACING
    rows_at_once = min(rope.tile_rows, rows)
    max_runs = rows_at_once if rope.positioned else 0
    tile *= rows_at_once
    if rope.count > 1 or rope.axes[0].pairs is not NULL:
        axis_tile = 2 * widest * itemsize * rows_at_once
    rope.memory = malloc(CACHE_LINE + 2 * align_up(row) + align_up(tile) + align_up(axis_tile)
                         + anchors + size_of_window(max_runs))
    if rope.memory is NULL:
        raise MemoryError("posenc: no memory for a tile of scratch")
    free_scratch = <char *> align_up(<size_t> rope.memory)
    rope.streamed = <char *> take(&free_scratch, row) if stream else NULL
    rope.row = take(&free_scratch, row)
    rope.tile = take(&free_scratch, tile)
    rope.axis_tile = take(&free_scratch, axis_tile)
    for axis in range(rope.count):
        rope.axes[axis].plan.anchor = <double *> take(
            &free_scratch, 2 * rope.axes[axis].plan.n * sizeof(double))
    begin_window(&rope.window, free_scratch, max_runs)
    return 0


# The views that follow that of `out`: `other` is x, or the output for sines.
cdef int view_operands(Rope *rope, cnp.ndarray out, cnp.ndarray other, tuple positions,
                       bint rotates, Py_ssize_t width) except -1:
    cdef str name = "x" if rotates else "sines"
    cdef Py_ssize_t axis
    if not cnp.PyArray_SAMESHAPE(other, out):
        refuse(name)
    view_of(&rope.views[X], &rope.walk, name, other, cnp.PyArray_TYPE(out), width)
    for axis in range(len(positions)):
        if positions[axis] is None:
            refuse("positions")
        view_of(&rope.views[VIEWS_OF_ROWS + axis], &rope.walk, "positions", positions[axis],
                cnp.NPY_FLOAT64, 0)
    rope.walk.count = VIEWS_OF_ROWS + <int> len(positions)
    merge_axes(&rope.walk)
    rope.positioned = len(positions) > 0
    rope.group_size = shared_entries(rope)
    return 0


# Rotated x in `out`, or cosines in `out` and sines in `other`.
cdef int rope_call(Rope *rope, cnp.ndarray out, cnp.ndarray other, tuple positions, bint rotates,
                   tuple plans, bint stream, Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(out), width, size
    cdef bint single
    cdef PyThreadState *thread
    begin_walk(&rope.walk, rope.views, out)
    width = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
    view_operands(rope, out, other, positions, rotates, width)
    check_range(&rope.walk, rope.start, first, stop)
    view_axes(rope, plans, width)
    if not rotates and width != 2 * rope.n:
        refuse("plans")
    rope.format = format_of(out)
    size = width * itemsize
    # 16-bit formats are rotated in float, and rounded from double
    single = cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32 or (rope.format is not NULL and rotates)
    allocate_rope(rope, width, sizeof(float) if single else sizeof(double), stream, stop - first)
    thread = release_gil((stop - first) * size)
    if single:
        rope_range(rope, rotates, size, itemsize, first, stop, <float *> rope.tile)
    else:
        rope_range(rope, rotates, size, itemsize, first, stop, <double *> rope.tile)
    take_gil(thread)
    free(rope.memory)
    return 0


# The same, with memory for the views and plans of as many axes of positions as there are.
cdef int rope_with_axes(cnp.ndarray out, cnp.ndarray other, double start, tuple positions,
                        bint rotates, tuple plans, bint interleaved, bint inverse, bint stream,
                        Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Rope rope
    cdef int count = <int> min(len(plans), MAX_PLANS + 1)
    if not 0 < count <= MAX_PLANS or len(positions) != count and (count > 1 or positions):
        refuse("plans")
    rope.start = start
    rope.inverse = inverse
    rope.interleaved = interleaved
    rope.count = count
    rope.views = <View *> malloc((VIEWS_OF_ROWS + count) * sizeof(View)
                                 + count * sizeof(AxisPlan))
    if rope.views is NULL:
        raise MemoryError("posenc: no memory for the axes of positions")
    rope.axes = <AxisPlan *> (rope.views + VIEWS_OF_ROWS + count)
    try:
        return rope_call(&rope, out, other, positions, rotates, plans, stream, first, stop)
    finally:
        free(rope.views)
