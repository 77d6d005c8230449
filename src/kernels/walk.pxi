# Ranges of rows: how the rows of an encoding are stored, or added to what is there.

# Indices of the views of a call's arrays; those that few calls have come last.
cdef enum:
    OUT
    X
    POSITIONS
    MASK
    IDS
    VIEWS

# What is done with a computed row: it is stored, as `real` or in a 16-bit format, or added to
# x * scale. Strides in bytes.
cdef struct Target:
    Py_ssize_t stride
    Py_ssize_t x_stride
    Py_ssize_t width          # columns: twice the plan's frequencies, or one less or more
    const Format *format      # NULL: `real`
    double scale
    bint adds
    bint streams              # by non-temporal stores

# Rows of consecutive positions over one anchor: `low`, low + 1, ... from it. Row r reads
# x + r * x_stride, or x + ids[r] * x_stride where there are ids. Where the mask is False, rows are
# x * scale.
cdef struct Run:
    char *out
    const char *x
    const int64_t *ids
    double anchor
    Py_ssize_t low
    Py_ssize_t length
    Py_ssize_t next           # index of another run in the same bucket, or -1
    bint encodes

# Runs that wait for others over the same anchor.
cdef struct Window:
    Run *runs
    Py_ssize_t *buckets
    Py_ssize_t count
    Py_ssize_t size

# Memory of a call.
cdef struct Scratch:
    void *memory
    void *staging             # two rows
    void *tile
    Py_ssize_t tile_rows
    Window window

cdef enum Traversal:
    CONSECUTIVE  # one batch entry after another, each row made for itself
    TILED        # a tile of rows is made once and added to every batch entry
    GROUPED      # rows that have an anchor in common, wherever they are, one after another


cdef inline const char *x_of(const Run *run, Py_ssize_t row,
                             const Target *target) noexcept nogil:
    # an id is that of a row of x: check_indices of _arrays.py
    return run.x + (row if run.ids is NULL else run.ids[row]) * target.x_stride


# out = x * scale + row, for a row or for several that are contiguous everywhere; `next` is what
# will be read after x.
cdef void add_row(char *out, const char *x, const char *next, const real *row, Py_ssize_t size,
                  const Target *target) noexcept nogil:
    if real is float and target.format is not NULL:
        target.format.add(out, x, row, <real> target.scale, size)
    elif real is float:
        add_row_float(<real *> out, <const real *> x, next, row, <real> target.scale, size,
                      target.streams)
    else:
        add_row_double(<real *> out, <const real *> x, next, row, target.scale, size,
                       target.streams)


# out = x * scale.
cdef void scale_row(char *out, const char *x, real scale, Py_ssize_t size,
                    const Target *target) noexcept nogil:
    if target.format is not NULL:
        target.format.scale(out, x, <float> scale, size)
    elif real is float:
        scale_float(<real *> out, <const real *> x, scale, size)
    else:
        scale_double(<real *> out, <const real *> x, scale, size)


# Columns of a staging row: those of an odd width may be one more than there are sines and cosines.
cdef inline Py_ssize_t staged_width(Py_ssize_t n, Py_ssize_t width) noexcept nogil:
    return max(2 * n, (width + 1) // 2 * 2)


# The same as `add_angles_<real>`, through staging rows, for two kinds of rows: those of a 16-bit
# format, which are added in float or else rounded from double; and those of an odd width, which
# lack the last cosine or have a last column of zeros.
cdef void stage_pair(const RowPointers *plus, const RowPointers *minus, const double *anchor,
                     const double *offset, const PlanView *plan, const Target *target,
                     real *staging) noexcept nogil:
    cdef RowPointers to[2]
    cdef const RowPointers *wanted[2]
    cdef const RowPointers *first
    cdef const RowPointers *second
    cdef Py_ssize_t step = staged_width(plan.n, target.width), i
    cdef real *row
    wanted[0], wanted[1] = plus, minus
    for i in range(2):
        to[i].out = <char *> (staging + i * step)
        to[i].x = NULL
    first, second = &to[0] if plus is not NULL else NULL, &to[1] if minus is not NULL else NULL
    if real is float:
        add_angles_float(first, second, anchor, offset, plan.n, 1.0, plan.interleaved, False)
    else:
        add_angles_double(first, second, anchor, offset, plan.n, 1.0, plan.interleaved, False)
    for i in range(2):
        if wanted[i] is NULL:
            continue
        row = staging + i * step
        if target.width > 2 * plan.n:
            row[2 * plan.n] = 0.0
        if target.adds:
            add_row(wanted[i].out, wanted[i].x, wanted[i].next, row, target.width, target)
        elif target.format is not NULL and real is double:
            target.format.round(wanted[i].out, <const double *> row, target.width)
        else:
            memcpy(wanted[i].out, row, target.width * sizeof(real))


# The rows of a run that is not encoded.
cdef void scale_run(const Run *run, const Target *target, real scale) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(run.length):
        scale_row(run.out + k * target.stride, x_of(run, k, target), scale, target.width,
                  target)


# The rows of a run, two mirrored ones at a time; `next` is what will be read after them.
cdef void encode_run(const Run *run, const char *next, PlanView *plan, const Target *target,
                     real *staging) noexcept nogil:
    cdef const double *anchor
    cdef const double *origin
    cdef const double *offset
    cdef Py_ssize_t low = run.low, high = run.low + run.length - 1
    cdef Py_ssize_t last = max(high, -low), n = plan.n, k
    cdef RowPointers above, below
    cdef const RowPointers *plus
    cdef const RowPointers *minus
    cdef bint staged = target.format is not NULL or target.width != 2 * n
    if not run.encodes:
        scale_run(run, target, <real> target.scale)
        return
    anchor = anchor_row(plan, run.anchor)
    above.x = below.x = NULL
    for k in range(max(low, -high, 0), last + 1):
        # k < ANCHOR_SPACING: `anchor_of`, by which runs end in `find_run`
        offset = plan.offsets + 2 * n * k
        plus = minus = NULL
        if low <= k <= high:
            plus = &above
            above.out = run.out + (k - low) * target.stride
            if target.adds:
                above.x = x_of(run, k - low, target)
                above.next = x_of(run, k + 1 - low, target) if k < high else next
        if 0 < k and low <= -k <= high:
            minus = &below
            below.out = run.out - (k + low) * target.stride
            if target.adds:
                below.x = x_of(run, -k - low, target)
                below.next = x_of(run, -k - 1 - low, target) if low < -k else next
        origin = anchor
        # Row 0 is exactly (0, amplitude), so to add angle k to it gives the table's row k to the
        # bit; to copy that is cheaper.
        if k == 0 or (anchor == plan.table and minus is NULL):
            origin = plan.table + 2 * n * k if anchor == plan.table else anchor
            offset = NULL
        if staged:
            stage_pair(plus, minus, origin, offset, plan, target, staging)
        elif real is float:
            add_angles_float(plus, minus, origin, offset, n, <float> target.scale,
                             plan.interleaved, target.streams)
        else:
            add_angles_double(plus, minus, origin, offset, n, target.scale, plan.interleaved,
                              target.streams)


cdef inline double position_of(const double *positions, double start,
                               Py_ssize_t row) noexcept nogil:
    return start + row if positions is NULL else positions[row]


# The longest run from `row` on, of those that are encoded or of those that are not.
cdef inline void find_run(Run *run, const double *positions, double start, const uint8_t *mask,
                          Py_ssize_t row, Py_ssize_t count) noexcept nogil:
    cdef double position = position_of(positions, start, row)
    cdef double anchor = anchor_of(position)
    cdef Py_ssize_t next
    run.anchor = anchor
    run.low = <Py_ssize_t> (position - anchor)
    run.length = 1
    run.encodes = mask is NULL or mask[row] != 0
    for next in range(row + 1, count):
        if mask is not NULL and run.encodes != (mask[next] != 0):
            return
        if run.encodes:
            position = position_of(positions, start, next)
            if position - anchor != run.low + run.length or anchor_of(position) != anchor:
                return
        run.length += 1


# `count` rows, run by run.
cdef void encode_rows(char *out, const char *x, PlanView *plan, const Target *target,
                      const double *positions, double start, Py_ssize_t count,
                      real *staging) noexcept nogil:
    cdef Run run
    cdef Py_ssize_t row = 0
    run.ids = NULL
    while row < count:
        find_run(&run, positions, start, NULL, row, count)
        run.out = out + row * target.stride
        run.x = x + row * target.x_stride
        encode_run(&run, run.x + run.length * target.x_stride, plan, target, staging)
        row += run.length


# The window's runs grouped by anchor with a chained hash table (buckets, then Run.next), so that
# each anchor's row is computed once.
cdef void flush_window(Window *window, PlanView *plan, const Target *target,
                       real *staging) noexcept nogil:
    cdef Py_ssize_t size = 1, i, bucket, next
    cdef Py_ssize_t *buckets = window.buckets
    cdef Run *runs = window.runs
    cdef const Run *run
    while size < window.count:  # ends below 2 * count or at 1: there is room in `buckets`
        size *= 2
    for i in range(size):
        buckets[i] = -1
    for i in range(window.count - 1, -1, -1):
        bucket = (<int64_t> runs[i].anchor // ANCHOR_SPACING) & (size - 1)
        runs[i].next = buckets[bucket]
        buckets[bucket] = i
    for i in range(window.count):
        bucket = (<int64_t> runs[i].anchor // ANCHOR_SPACING) & (size - 1)
        while buckets[bucket] >= 0:
            run = &runs[buckets[bucket]]
            buckets[bucket] = run.next
            next = run.next if run.next >= 0 else min(i + 1, window.count - 1)
            encode_run(run, x_of(&runs[next], 0, target), plan, target, staging)
    window.count = 0


cdef size_t size_of_window(Py_ssize_t max_runs) noexcept:
    return max_runs * (sizeof(Run) + 2 * sizeof(Py_ssize_t))


# An empty window in memory of that size.
cdef void begin_window(Window *window, void *memory, Py_ssize_t max_runs) noexcept:
    window.runs = <Run *> memory
    window.buckets = <Py_ssize_t *> (window.runs + max_runs)
    window.size = max_runs
    window.count = 0


# `count` rows into the window, which is flushed each time it is full.
cdef void group_rows(Window *window, char *out, const char *x, const int64_t *ids,
                     const double *positions, double start, const uint8_t *mask, Py_ssize_t count,
                     PlanView *plan, const Target *target, real *staging) noexcept nogil:
    cdef Py_ssize_t row = 0
    cdef Run *run
    while row < count:
        run = &window.runs[window.count]
        find_run(run, positions, start, mask, row, count)
        run.out = out + row * target.stride
        run.ids = NULL if ids is NULL else ids + row
        run.x = x if ids is not NULL else x + row * target.x_stride
        row += run.length
        window.count += 1
        if window.count == window.size:
            flush_window(window, plan, target, staging)


cdef void group_entries(Walk *walk, const Rectangle *rectangle, double start, PlanView *plan,
                        const Target *target, real *staging, Window *window) noexcept nogil:
    cdef View *views = walk.views
    cdef Py_ssize_t row = rectangle.row, entry
    seek(walk, rectangle.entry)
    for entry in range(rectangle.entries):
        group_rows(
            window, views[OUT].entry + row * target.stride,
            views[X].entry + (row * target.x_stride if views[IDS].data is NULL else 0),
            (<const int64_t *> views[IDS].entry) + row if views[IDS].data is not NULL else NULL,
            (<const double *> views[POSITIONS].entry) + row
            if views[POSITIONS].data is not NULL else NULL,
            start + row,
            (<const uint8_t *> views[MASK].entry) + row if views[MASK].data is not NULL else NULL,
            rectangle.rows, plan, target, staging)
        advance(walk)
    flush_window(window, plan, target, staging)


# A tile of rows is made once and added to every batch entry while it is in cache.
cdef void add_tiles(Walk *walk, const Rectangle *rectangle, double start, PlanView *plan,
                    const Target *target, real *staging, real *tile,
                    Py_ssize_t tile_rows) noexcept nogil:
    cdef View *out = &walk.views[OUT]
    cdef View *x = &walk.views[X]
    cdef const double *positions = <const double *> walk.views[POSITIONS].data
    cdef Target to_tile = target[0]
    cdef Py_ssize_t width = target.width, size, first, stop = rectangle.row + rectangle.rows
    cdef Py_ssize_t count, entry, row, rows
    cdef bint contiguous
    cdef const char *source
    to_tile.adds = to_tile.streams = False
    to_tile.x_stride = 0
    to_tile.stride = width * sizeof(real)
    to_tile.format = NULL
    size = width * (sizeof(real) if target.format is NULL else target.format.itemsize)
    contiguous = target.stride == size == target.x_stride
    for first from rectangle.row <= first < stop by tile_rows:
        count = min(stop - first, tile_rows)
        encode_rows(<char *> tile, NULL, plan, &to_tile,
                    positions + first if positions is not NULL else NULL, start + first, count,
                    staging)
        # contiguous rows are added as one
        rows = count if contiguous else 1
        seek(walk, rectangle.entry)
        for entry in range(rectangle.entries):
            for row from 0 <= row < count by rows:
                source = x.entry + (first + row) * target.x_stride
                add_row(out.entry + (first + row) * target.stride, source, source + AHEAD,
                        tile + row * width, rows * width, target)
            advance(walk)


cdef Traversal traversal_of(const Walk *walk, bint adds) noexcept:
    cdef const View *views = walk.views
    cdef bint tiles = adds and walk.entries > 1
    cdef int axis
    if views[IDS].data is not NULL or views[MASK].data is not NULL:
        return GROUPED
    if views[POSITIONS].data is not NULL:
        for axis in range(walk.axes):
            tiles = tiles and views[POSITIONS].strides[axis] == 0
        return TILED if tiles else GROUPED
    return TILED if tiles else CONSECUTIVE


cdef void encode_range(Walk *walk, Py_ssize_t first, Py_ssize_t stop, Traversal traversal,
                       double start, PlanView *plan, const Target *target, Scratch *scratch,
                       real *staging) noexcept nogil:
    cdef View *out = &walk.views[OUT]
    cdef View *x = &walk.views[X]
    cdef Rectangle rectangle
    cdef Py_ssize_t entry
    while first < stop:
        rectangle = next_rectangle(walk, &first, stop)
        if traversal == GROUPED:
            group_entries(walk, &rectangle, start, plan, target, staging, &scratch.window)
        elif traversal == TILED:
            add_tiles(walk, &rectangle, start, plan, target, staging, <real *> scratch.tile,
                      scratch.tile_rows)
        else:
            seek(walk, rectangle.entry)
            for entry in range(rectangle.entries):
                encode_rows(out.entry + rectangle.row * target.stride,
                            x.entry + rectangle.row * target.x_stride, plan, target, NULL,
                            start + rectangle.row, rectangle.rows, staging)
                advance(walk)
    if target.streams:
        stream_fence()


# A plan's arrays, once they have the dtypes and shapes of _plan.py; its `anchor` is yet to come.
cdef int view_plan(PlanView *view, plan) except -1:
    cdef cnp.ndarray array
    cdef Py_ssize_t n = -1
    cdef int field
    if not (PyTuple_Check(plan) and PyTuple_GET_SIZE(plan) == PLAN_FIELDS):
        refuse("plan")
    for field in range(QUARTER_TURNS, OFFSETS + 1):
        if not cnp.PyArray_Check(<object> PyTuple_GET_ITEM(plan, field)):
            refuse("plan")
        array = <cnp.ndarray> PyTuple_GET_ITEM(plan, field)
        if not (cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64 and cnp.PyArray_ISCARRAY_RO(array)
                and cnp.PyArray_NDIM(array) == (3 if field else 2)
                and cnp.PyArray_DIM(array, 0) >= (ANCHOR_SPACING if field else 4)
                and (not field or cnp.PyArray_DIM(array, 1) == 2)
                and n in (-1, cnp.PyArray_DIM(array, 2 if field else 1))):
            refuse("plan")
        n = cnp.PyArray_DIM(array, 2 if field else 1)
    view.n = n
    view.quarter_turns = <const double *> cnp.PyArray_DATA(
        <cnp.ndarray> PyTuple_GET_ITEM(plan, QUARTER_TURNS))
    view.offsets = <const double *> cnp.PyArray_DATA(<cnp.ndarray> PyTuple_GET_ITEM(plan, OFFSETS))
    array = <cnp.ndarray> PyTuple_GET_ITEM(plan, TABLE)
    view.table = <const double *> cnp.PyArray_DATA(array)
    view.last_tabulated_anchor = <double> (
        ANCHOR_SPACING * (cnp.PyArray_DIM(array, 0) - ANCHOR_SPACING))
    view.interleaved = <object> PyTuple_GET_ITEM(plan, INTERLEAVED)
    view.cos_first = <object> PyTuple_GET_ITEM(plan, COS_FIRST)
    view.amplitude = <object> PyTuple_GET_ITEM(plan, AMPLITUDE)
    view.min_abs_frequency = 0.0
    view.cached_anchor = NAN
    return 0


# Room for an anchor's row and two staging rows, for a tile, and for as many runs as may wait. Each
# begins a cache line, which half of the loads would cross elsewhere.
cdef int allocate(Scratch *scratch, PlanView *plan, const Walk *walk, const Target *target,
                  size_t itemsize, Traversal traversal, Py_ssize_t rows) except -1:
    cdef size_t anchor = 2 * plan.n * sizeof(double)
    cdef size_t staging = 2 * staged_width(plan.n, target.width) * itemsize
    cdef size_t tile = 0, row = target.width * itemsize
    cdef Py_ssize_t max_runs = min(rows, <Py_ssize_t> WINDOW) if traversal == GROUPED else 0
    cdef char *free_scratch
    if traversal == TILED:
        scratch.tile_rows = min(
            walk.length, <Py_ssize_t> max(1, (LONG_TILE if target.streams else TILE) // row))
        tile = row * scratch.tile_rows
    scratch.memory = malloc(CACHE_LINE + align_up(anchor) + align_up(staging) + align_up(tile)
                            + size_of_window(max_runs))
    if scratch.memory is NULL:
        raise MemoryError("posenc: no memory for a few rows of scratch")
    free_scratch = <char *> align_up(<size_t> scratch.memory)
    plan.anchor = <double *> take(&free_scratch, anchor)
    scratch.staging = take(&free_scratch, staging)
    scratch.tile = take(&free_scratch, tile)
    begin_window(&scratch.window, free_scratch, max_runs)
    return 0


# The walk of `add`, and of `fill` without an x. Where there are ids, x is a table of rows.
cdef int walk_sums(Walk *walk, View *views, cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids,
                   double start, cnp.ndarray positions, cnp.ndarray mask, int of_positions,
                   Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Py_ssize_t width
    cdef int dtype = cnp.PyArray_TYPE(out)
    begin_walk(walk, views, out)
    width = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
    if ids is None:
        if x is not None and not cnp.PyArray_SAMESHAPE(x, out):
            refuse("x")
        view_of(&views[X], walk, "x", x, dtype, width)
    else:
        view_of_table(&views[X], walk, "x", x, dtype, width)
    view_of(&views[POSITIONS], walk, "positions", positions, of_positions, 0)
    view_of(&views[MASK], walk, "mask", mask, cnp.NPY_BOOL, 0)
    view_of(&views[IDS], walk, "ids", ids, cnp.NPY_INT64, 0)
    walk.count = VIEWS
    while views[walk.count - 1].data is NULL:
        walk.count -= 1
    merge_axes(walk)
    return check_range(walk, start, first, stop)


cdef Target target_of(cnp.ndarray out, cnp.ndarray x, const Walk *walk, double scale,
                      bint stream) noexcept:
    cdef Target target
    target.stride = walk.views[OUT].row_stride
    target.x_stride = walk.views[X].row_stride if x is not None else 0
    target.width = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
    target.format = format_of(out)
    target.scale = scale
    target.adds = x is not None
    target.streams = stream
    return target


# out = PE, or x * scale + PE, of a walk and a plan that are checked.
cdef int encode_walk(Walk *walk, cnp.ndarray out, cnp.ndarray x, double start, PlanView *plan,
                     double scale, bint stream, Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Target target = target_of(out, x, walk, scale, stream)
    cdef Scratch scratch
    cdef PyThreadState *thread
    cdef Traversal traversal = traversal_of(walk, target.adds)
    # 16-bit formats are added in float, and rounded from double
    cdef bint single = cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32 or (
        target.format is not NULL and target.adds)
    if not -1 <= target.width - 2 * plan.n <= 1:
        refuse("plan")
    allocate(&scratch, plan, walk, &target, sizeof(float) if single else sizeof(double), traversal,
             stop - first)
    thread = release_gil((stop - first) * target.width * cnp.PyArray_ITEMSIZE(out))
    if single:
        encode_range(walk, first, stop, traversal, start, plan, &target, &scratch,
                     <float *> scratch.staging)
    else:
        encode_range(walk, first, stop, traversal, start, plan, &target, &scratch,
                     <double *> scratch.staging)
    take_gil(thread)
    free(scratch.memory)
    return 0


# Whether both are plain C-contiguous arrays of float32 or float64 of one shape (batch, length,
# width), not large, the same or apart.
cdef bint is_small_sum(cnp.ndarray out, cnp.ndarray x) noexcept:
    cdef char *to = cnp.PyArray_BYTES(out)
    cdef char *source = cnp.PyArray_BYTES(x)
    cdef Py_ssize_t size = cnp.PyArray_NBYTES(out)
    return (cnp.PyArray_NDIM(out) == 3 == cnp.PyArray_NDIM(x)
            and cnp.PyArray_TYPE(out) == cnp.PyArray_TYPE(x)
            and cnp.PyArray_TYPE(out) in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64)
            and cnp.PyArray_ISCARRAY(out) and cnp.PyArray_ISCARRAY_RO(x)
            and cnp.PyArray_SAMESHAPE(out, x) and 0 < size <= SMALL
            and (to == source or to + size <= source or source + size <= to))


# The same for such arrays, whose walk needs no more checks, unless their width is odd: then the
# checks in Python have their say.
cdef bint try_encode_small(cnp.ndarray out, cnp.ndarray x, double start, double scale,
                           plan) except -1:
    cdef Walk walk
    cdef View views[VIEWS]
    cdef PlanView view
    view_plan(&view, plan)
    if cnp.PyArray_DIM(out, 2) != 2 * view.n:
        return False
    walk.views = views
    walk.count = 2
    walk.entries, walk.length = cnp.PyArray_DIM(out, 0), cnp.PyArray_DIM(out, 1)
    walk.axes = walk.entries > 1
    walk.shape[0] = walk.entries
    views[OUT].data, views[X].data = cnp.PyArray_BYTES(out), cnp.PyArray_BYTES(x)
    views[OUT].strides[0] = views[X].strides[0] = cnp.PyArray_STRIDE(out, 0)
    views[OUT].row_stride = views[X].row_stride = cnp.PyArray_STRIDE(out, 1)
    views[POSITIONS].data = views[MASK].data = views[IDS].data = NULL
    encode_walk(&walk, out, x, start, &view, scale, False, 0, walk.entries * walk.length)
    return True
