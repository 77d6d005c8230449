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
    const Format *format
    Scratch scratch           # its tile has the sines and cosines
    void *axis_tile           # the same rows, of the pairs of one axis
    void *row                 # a row, rounded
    void (*rotate)(const Rotation *rows) noexcept nogil
    char *stretch             # rows to be stored by non-temporal stores, NULL for none
    Py_ssize_t stretch_rows


# The sines and cosines of some pairs for the rows `row` to row + rows of some groups. As these are
# rows of `real`, with two columns for each frequency, they need no staging.
cdef void tabulate_axis(Rope *rope, int axis, real *to, Py_ssize_t group, Py_ssize_t groups,
                        Py_ssize_t row, Py_ssize_t rows) noexcept nogil:
    cdef PlanView *plan = &rope.axes[axis].plan
    cdef Py_ssize_t width = 2 * plan.n, i
    cdef Target target
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
        group_rows(&rope.scratch, <char *> (to + i * rows * width), NULL, NULL,
                   (<const double *> rope.views[VIEWS_OF_ROWS + axis].entry) + row, 0.0, NULL, rows,
                   plan, &target, to)
    flush_window(&rope.scratch, plan, &target, to)


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


# Rows along an axis, and from each to the next, in bytes.
cdef struct RopeAxis:
    Py_ssize_t count
    Py_ssize_t out
    Py_ssize_t x
    Py_ssize_t angles


# Whether rows are to be made in cache and streamed from there: they are complete cache lines, or
# follow one another for so long that the lines at the ends do not matter.
cdef inline bint makes_stretches(const char *out, const RopeAxis *outer, const RopeAxis *inner,
                                 Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t contiguous = inner.count * size
    if ((<size_t> out) | outer.out | inner.out | size) % CACHE_LINE == 0:
        return True
    if outer.out == contiguous:
        contiguous *= outer.count
    return inner.out == size and contiguous >= MIN_STRETCH


# Rows that are made where they are stored.
cdef void rotate_block(const Rope *rope, Rotation *rows, const RopeAxis *outer,
                       const RopeAxis *inner) noexcept nogil:
    cdef Py_ssize_t i
    rows.out_step, rows.x_step, rows.angles_step = inner.out, inner.x, inner.angles
    rows.count = inner.count
    for i in range(outer.count):
        rope.rotate(rows)
        rows.out += outer.out
        rows.x += outer.x
        rows.angles += outer.angles


# Rows that are made in `stretch`, as many as are contiguous and have room there, and streamed.
cdef void stream_block(const Rope *rope, Rotation *rows, const RopeAxis *outer,
                       const RopeAxis *inner, Py_ssize_t size) noexcept nogil:
    cdef const char *x
    cdef const char *angles
    cdef char *begin = rows.out
    cdef char *made = apart_from(rope.stretch, begin)
    cdef char *out
    cdef Py_ssize_t filled = 0, i, done
    rows.out_step, rows.x_step, rows.angles_step = size, inner.x, inner.angles
    out, x, angles = rows.out, rows.x, rows.angles
    for i in range(outer.count):
        done = 0
        while done < inner.count:
            if filled == rope.stretch_rows or begin + filled * size != out + done * inner.out:
                stream_copy(begin, made, filled * size)
                filled = 0
                begin = out + done * inner.out
                made = apart_from(rope.stretch, begin)
            rows.count = 1
            if inner.out == size:
                rows.count = min(inner.count - done, rope.stretch_rows - filled)
            rows.out = made + filled * size
            rows.x = x + done * inner.x
            rows.angles = angles + done * inner.angles
            rope.rotate(rows)
            filled += rows.count
            done += rows.count
        out += outer.out
        x += outer.x
        angles += outer.angles
    stream_copy(begin, made, filled * size)


# The rows `row` to row + rows of `entries` batch entries along one axis of the walk, in the order
# in which they lie in memory.
cdef void rotate_rows(Rope *rope, const real *tile, Py_ssize_t row, Py_ssize_t rows,
                      Py_ssize_t entries, Py_ssize_t size, Py_ssize_t rotated) noexcept nogil:
    cdef const View *out = &rope.views[OUT]
    cdef const View *x = &rope.views[X]
    cdef int last = max(rope.walk.axes - 1, 0)
    cdef Rotation of_rows
    cdef RopeAxis along_rows, along_entries
    cdef RopeAxis *outer = &along_entries
    cdef RopeAxis *inner = &along_rows
    along_rows.count, along_rows.out, along_rows.x = rows, out.row_stride, x.row_stride
    along_rows.angles = 2 * rope.n * sizeof(real)
    along_entries.count, along_entries.angles = entries, 0
    along_entries.out = along_entries.x = 0
    if rope.walk.axes:
        along_entries.out, along_entries.x = out.strides[last], x.strides[last]
    if rows == 1 or (entries > 1 and abs_of(along_entries.out) < abs_of(along_rows.out)):
        outer, inner = inner, outer
    of_rows.out = out.entry + row * out.row_stride
    of_rows.x = x.entry + row * x.row_stride
    of_rows.angles = <const char *> tile
    of_rows.n = rope.n
    of_rows.rest = size - rotated
    of_rows.interleaved = rope.interleaved
    of_rows.ahead = 0
    if (rope.stretch is not NULL and of_rows.out != of_rows.x
            and makes_stretches(of_rows.out, outer, inner, size)):
        of_rows.ahead = AHEAD
        stream_block(rope, &of_rows, outer, inner, size)
    else:
        rotate_block(rope, &of_rows, outer, inner)


cdef inline Py_ssize_t abs_of(Py_ssize_t stride) noexcept nogil:
    return stride if stride >= 0 else -stride


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


# Batch entries from the walk's current one to the end of its last axis.
cdef inline Py_ssize_t left_on_axis(const Walk *walk) noexcept nogil:
    return walk.shape[walk.axes - 1] - walk.index[walk.axes - 1] if walk.axes else 1


# The rows of a rectangle, tile by tile: a tile has some rows of a group, or all of several groups.
cdef void rope_rectangle(Rope *rope, const Rectangle *rectangle, bint rotates, Py_ssize_t size,
                         Py_ssize_t itemsize, real *tile) noexcept nogil:
    cdef Py_ssize_t group_size = rope.group_size, end = rectangle.entry + rectangle.entries
    cdef Py_ssize_t groups = (end - 1) // group_size + 1, stop = rectangle.row + rectangle.rows
    cdef Py_ssize_t row, rows, group, count, entry, last, entries
    cdef const real *of_group
    for row from rectangle.row <= row < stop by rope.scratch.tile_rows:
        rows = min(stop - row, rope.scratch.tile_rows)
        group = rectangle.entry // group_size
        while group < groups:
            count = min(groups - group, max(rope.scratch.tile_rows // rows, <Py_ssize_t> 1))
            tabulate_rope(rope, tile, group, count, row, rows)
            entry = max(group * group_size, rectangle.entry)
            last = min((group + count) * group_size, end)
            while entry < last:
                seek(&rope.walk, entry)
                of_group = tile + (entry // group_size - group) * rows * 2 * rope.n
                if rotates:
                    entries = min(last, (entry // group_size + 1) * group_size) - entry
                    entries = min(entries, left_on_axis(&rope.walk))
                    rotate_rows(rope, of_group, row, rows, entries, size, 2 * rope.n * itemsize)
                    entry += entries
                else:
                    repeat_rows(rope, of_group, row, rows, itemsize)
                    entry += 1
            group += count


cdef void rope_range(Rope *rope, bint rotates, Py_ssize_t size, Py_ssize_t itemsize,
                     Py_ssize_t first, Py_ssize_t stop, real *tile) noexcept nogil:
    cdef Rectangle rectangle
    while first < stop:
        rectangle = next_rectangle(&rope.walk, &first, stop)
        rope_rectangle(rope, &rectangle, rotates, size, itemsize, tile)
    if rope.stretch is not NULL:
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
    if rope.count > 1 or rope.axes[0].pairs is not NULL:
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


cdef int allocate_rope(Rope *rope, Py_ssize_t width, size_t itemsize, Py_ssize_t size,
                       bint stream, Py_ssize_t rows) except -1:
    cdef size_t tile = 2 * rope.n * itemsize, axis_tile = 0, anchors = 0, stretch = 0
    cdef size_t row = width * sizeof(double)
    cdef Py_ssize_t rows_at_once, max_runs, widest = 0
    cdef char *free_scratch
    cdef int axis
    for axis in range(rope.count):
        anchors += align_up(2 * rope.axes[axis].plan.n * sizeof(double))
        widest = max(widest, rope.axes[axis].plan.n)
    rope.scratch.tile_rows = ANCHOR_SPACING * max(ROPE_TILE // tile // ANCHOR_SPACING,
                                                  <size_t> 1)
    rows_at_once = min(rope.scratch.tile_rows, rows)
    if not rope.positioned:
        rows_at_once = min(rows_at_once, rope.walk.length)
    max_runs = rows_at_once if rope.positioned else 0
    tile *= rows_at_once
    if rope.count > 1 or rope.axes[0].pairs is not NULL:
        axis_tile = 2 * widest * itemsize * rows_at_once
    if stream and HAS_STREAM:
        rope.stretch_rows = max(STRETCH // size, <Py_ssize_t> 1)
        stretch = APART_ROOM + rope.stretch_rows * size
    rope.scratch.memory = malloc(CACHE_LINE + align_up(stretch) + align_up(row) + align_up(tile)
                                 + align_up(axis_tile) + anchors + size_of_window(max_runs))
    if rope.scratch.memory is NULL:
        raise MemoryError("posenc: no memory for a tile of scratch")
    free_scratch = <char *> align_up(<size_t> rope.scratch.memory)
    rope.stretch = <char *> take(&free_scratch, stretch) if stretch else NULL
    rope.row = take(&free_scratch, row)
    rope.scratch.tile = take(&free_scratch, tile)
    rope.axis_tile = take(&free_scratch, axis_tile)
    for axis in range(rope.count):
        rope.axes[axis].plan.anchor = <double *> take(
            &free_scratch, 2 * rope.axes[axis].plan.n * sizeof(double))
    rope.scratch.tabulated = NAN
    begin_window(&rope.scratch.window, free_scratch, max_runs)
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
    rope.rotate = (rope.format.rotate if rope.format is not NULL
                   else rotate_float if single else rotate_double)
    allocate_rope(rope, width, sizeof(float) if single else sizeof(double), size, stream,
                  stop - first)
    thread = release_gil((stop - first) * size)
    if single:
        rope_range(rope, rotates, size, itemsize, first, stop, <float *> rope.scratch.tile)
    else:
        rope_range(rope, rotates, size, itemsize, first, stop, <double *> rope.scratch.tile)
    take_gil(thread)
    free(rope.scratch.memory)
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
