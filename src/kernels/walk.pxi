# Ranges of rows: how the rows of an encoding are stored, or added to what is there.

# Indices of the views of a call's arrays; those that few calls have come last.
cdef enum:
    OUT
    X
    POSITIONS
    MASK
    IDS
    VIEWS

# How rows reach the output.
cdef enum Way:
    DIRECT    # made where they belong
    STREAMED  # made in a tile, which is copied with non-temporal stores
    STAGED    # made in a tile, and added, rounded or cut from there

# What is done with rows: they are stored, as `real` or in a 16-bit format, or added to x * scale.
# Strides in bytes.
cdef struct Target:
    Py_ssize_t stride
    Py_ssize_t x_stride
    Py_ssize_t width          # columns: twice the plan's frequencies, or one less or more
    const Format *format      # NULL: `real`
    double scale
    bint adds
    bint streams              # by non-temporal stores
    Way way

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
    void *tile
    Py_ssize_t tile_rows
    double tabulated          # the tile has the rows of this position and the next ones; NaN: none
    Window window

cdef enum Traversal:
    CONSECUTIVE  # one batch entry after another, each row made for itself
    TILED        # a tile of rows is made once, and stored in every batch entry or added there
    TABULATED    # a tile has the rows of all positions, which are fewer than the rows of the call
    GROUPED      # rows that have an anchor in common, wherever they are, one after another


cdef inline const char *x_of(const Run *run, Py_ssize_t row,
                             const Target *target) noexcept nogil:
    # an id is that of a row of x: check_indices of _arrays.py
    return run.x + (row if run.ids is NULL else run.ids[row]) * target.x_stride


# Bytes of an element of the output.
cdef inline Py_ssize_t itemsize_of(const Target *target, const real *row) noexcept nogil:
    return sizeof(real) if target.format is NULL else target.format.itemsize


# out = row, or x * scale + row, for contiguous elements.
cdef void store_row(char *out, const char *x, const real *row, Py_ssize_t count,
                    const Target *target) noexcept nogil:
    if target.format is not NULL and target.adds and real is float:
        target.format.add(out, x, <const float *> row, <float> target.scale, count)
    elif target.format is not NULL and real is double:
        target.format.round(out, <const double *> row, count)
    elif not target.adds:
        memcpy(out, row, count * sizeof(real))
    elif real is float:
        add_row_float(<real *> out, <const real *> x, row, <real> target.scale, count)
    else:
        add_row_double(<real *> out, <const real *> x, row, target.scale, count)


# The same with non-temporal stores. Those of a 16-bit format are made in scratch, some at a time.
cdef void stream_row(char *out, const char *x, const real *row, Py_ssize_t count,
                     const Target *target) noexcept nogil:
    cdef char[APART_ROOM + ROUNDED_BYTES] memory
    cdef char *made
    cdef Py_ssize_t itemsize = itemsize_of(target, row), done, part
    if target.format is not NULL:
        part = min(count, <Py_ssize_t> bytes_to_cache_line(out) // itemsize)
        store_row(out, x, row, part, target)
        done = part
        while done < count:
            part = min(count - done, ROUNDED_BYTES // itemsize)
            made = apart_from(memory, out + done * itemsize)
            store_row(made, x + done * itemsize if target.adds else NULL, row + done, part, target)
            stream_copy(out + done * itemsize, made, part * itemsize)
            done += part
    elif not target.adds:
        stream_copy(out, <const char *> row, count * itemsize)
    elif real is float:
        stream_sum_float(<real *> out, <const real *> x, row, <real> target.scale, count)
    else:
        stream_sum_double(<real *> out, <const real *> x, row, target.scale, count)


# Contiguous rows, stored or added. Those that are contiguous in out and x too are stored as one.
cdef void store_rows(const Run *run, const real *rows, const Target *target) noexcept nogil:
    cdef Py_ssize_t width = target.width, size = width * itemsize_of(target, rows)
    cdef Py_ssize_t at_once = 1, row
    cdef char *out = run.out
    cdef const char *x = NULL
    if target.stride == size and (not target.adds
                                  or (run.ids is NULL and target.x_stride == size)):
        at_once = run.length
    for row from 0 <= row < run.length by at_once:
        if target.adds:
            x = x_of(run, row, target)
        if target.streams and at_once * size >= MIN_STRETCH:
            stream_row(out, x, rows + row * width, at_once * width, target)
        else:
            store_row(out, x, rows + row * width, at_once * width, target)
        out += target.stride


# out = x * scale.
cdef void scale_row(char *out, const char *x, real scale, Py_ssize_t size,
                    const Target *target) noexcept nogil:
    if target.format is not NULL:
        target.format.scale(out, x, <float> scale, size)
    elif real is float:
        scale_float(<real *> out, <const real *> x, scale, size)
    else:
        scale_double(<real *> out, <const real *> x, scale, size)


# Columns that a row of a tile has room for: an odd width may have one less than there are sines
# and cosines.
cdef inline Py_ssize_t made_width(Py_ssize_t n, Py_ssize_t width) noexcept nogil:
    return max(2 * n, width)


# Rows of a tile that have an odd width lack the last cosine, or have a last column of zeros.
cdef void trim_rows(real *rows, Py_ssize_t count, Py_ssize_t n, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t row
    if width < 2 * n:
        for row in range(1, count):
            memmove(rows + row * width, rows + row * 2 * n, width * sizeof(real))
    elif width > 2 * n:
        for row in range(count):
            rows[row * width + 2 * n] = 0.0


# A target for rows of a tile, which are made as they are, and added to x if `adds`.
cdef Target tile_of(const Target *target, PlanView *plan, bint adds,
                    const real *of_type) noexcept nogil:
    cdef Target to = target[0]
    to.stride = made_width(plan.n, target.width) * sizeof(real)
    to.format = NULL
    to.adds = adds
    if not adds:
        to.x_stride = 0
    to.streams = False
    to.way = DIRECT
    return to


# The rows of a run that is not encoded.
cdef void scale_run(const Run *run, const Target *target, real scale) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(run.length):
        scale_row(run.out + k * target.stride, x_of(run, k, target), scale, target.width,
                  target)


# The rows of a run, made where they belong; `next` is what will be read after them.
cdef void make_rows(const Run *run, const char *next, PlanView *plan, const Target *target,
                    const real *of_type) noexcept nogil:
    cdef const double *anchor = anchor_row(plan, run.anchor)
    cdef Rows rows
    rows.out, rows.stride = run.out, target.stride
    rows.x = run.x if target.adds else NULL
    rows.ids, rows.x_stride, rows.next = run.ids, target.x_stride, next
    rows.low, rows.high = run.low, run.low + run.length - 1
    rows.streams = target.streams
    # Row 0 is exactly (0, amplitude), so to add angle k to it gives the table's row k to the bit;
    # to copy that is cheaper. k < ANCHOR_SPACING: `anchor_of`, by which runs end in `find_run`.
    if real is float:
        add_angles_float(&rows, anchor, plan.offsets, anchor == plan.table, plan.n,
                         <float> target.scale, plan.interleaved)
    else:
        add_angles_double(&rows, anchor, plan.offsets, anchor == plan.table, plan.n, target.scale,
                          plan.interleaved)


# Where to make rows that are stored from a tile: where that is fastest for streamed ones.
cdef inline real *tile_for(const Target *target, const char *out, real *tile) noexcept nogil:
    if target.streams and target.format is NULL:
        return <real *> apart_in_line(<char *> tile, out)
    return tile


# The rows of a run by way of a tile, as many as it holds at a time.
cdef void make_by_tile(const Run *run, PlanView *plan, const Target *target, real *tile,
                       Py_ssize_t tile_rows) noexcept nogil:
    cdef Target to_tile = tile_of(target, plan, target.way == STREAMED and target.adds, tile)
    cdef Run part, made
    cdef real *rows
    cdef Py_ssize_t first
    for first from 0 <= first < run.length by tile_rows:
        part = run[0]
        part.length = min(run.length - first, tile_rows)
        part.low += first
        part.out += first * target.stride
        if run.ids is not NULL:
            part.ids += first
        elif target.adds:
            part.x += first * target.x_stride
        made = part
        rows = tile_for(target, part.out, tile)
        made.out = <char *> rows
        make_rows(&made, made.x, plan, &to_tile, rows)
        if target.way == STREAMED:
            stream_copy(part.out, <const char *> rows, part.length * target.stride)
        else:
            trim_rows(rows, part.length, plan.n, target.width)
            store_rows(&part, rows, target)


cdef inline bint is_tabulated(const Scratch *scratch) noexcept nogil:
    return scratch.tabulated == scratch.tabulated


cdef void encode_run(const Run *run, const char *next, PlanView *plan, const Target *target,
                     const Scratch *scratch, real *tile) noexcept nogil:
    cdef Py_ssize_t row
    if not run.encodes:
        scale_run(run, target, <real> target.scale)
    elif is_tabulated(scratch):
        row = <Py_ssize_t> (run.anchor + run.low - scratch.tabulated)
        store_rows(run, tile + row * target.width, target)
    elif target.way == DIRECT:
        make_rows(run, next, plan, target, tile)
    else:
        make_by_tile(run, plan, target, tile, scratch.tile_rows)


cdef inline double position_of(const double *positions, double start,
                               Py_ssize_t row) noexcept nogil:
    return start + row if positions is NULL else positions[row]


# The longest run from `row` on, of those that are encoded or of those that are not.
cdef inline void find_run(Run *run, const double *positions, double start, const uint8_t *mask,
                          Py_ssize_t row, Py_ssize_t count) noexcept nogil:
    cdef double position = position_of(positions, start, row)
    cdef Py_ssize_t next = row + 1, end = count
    run.anchor = anchor_of(position)
    run.low = <Py_ssize_t> (position - run.anchor)
    run.encodes = mask is NULL or mask[row] != 0
    if run.encodes:
        end = min(count, row + rows_over(run.anchor, position))
    if mask is NULL and positions is NULL:
        next = end
    while next < end and (mask is NULL or run.encodes == (mask[next] != 0)) and (
            positions is NULL or not run.encodes or positions[next] - position == next - row):
        next += 1
    run.length = next - row


# `count` rows, run by run, made where they belong.
cdef void encode_rows(char *out, const char *x, PlanView *plan, const Target *target,
                      const double *positions, double start, Py_ssize_t count,
                      const real *of_type) noexcept nogil:
    cdef Run run
    cdef Py_ssize_t row = 0
    run.ids = NULL
    while row < count:
        find_run(&run, positions, start, NULL, row, count)
        run.out = out + row * target.stride
        run.x = x + row * target.x_stride
        make_rows(&run, run.x + run.length * target.x_stride, plan, target, of_type)
        row += run.length


# The window's runs grouped by anchor with a chained hash table (buckets, then Run.next), so that
# each anchor's row is computed once.
cdef void flush_window(Scratch *scratch, PlanView *plan, const Target *target,
                       real *tile) noexcept nogil:
    cdef Window *window = &scratch.window
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
            encode_run(run, x_of(&runs[next], 0, target), plan, target, scratch, tile)
    window.count = 0


cdef size_t size_of_window(Py_ssize_t max_runs) noexcept nogil:
    return max_runs * (sizeof(Run) + 2 * sizeof(Py_ssize_t))


# An empty window in memory of that size.
cdef void begin_window(Window *window, void *memory, Py_ssize_t max_runs) noexcept nogil:
    window.runs = <Run *> memory
    window.buckets = <Py_ssize_t *> (window.runs + max_runs)
    window.size = max_runs
    window.count = 0


# `count` rows into the window, which is flushed each time it is full. What has nothing to wait for
# is encoded at once: rows that are ready, and fractional positions, which are their own anchors.
cdef void group_rows(Scratch *scratch, char *out, const char *x, const int64_t *ids,
                     const double *positions, double start, const uint8_t *mask, Py_ssize_t count,
                     PlanView *plan, const Target *target, real *tile) noexcept nogil:
    cdef Window *window = &scratch.window
    cdef Py_ssize_t row = 0
    cdef bint ready = is_tabulated(scratch)
    cdef Run *run
    while row < count:
        run = &window.runs[window.count]
        find_run(run, positions, start, mask, row, count)
        run.out = out + row * target.stride
        run.ids = NULL if ids is NULL else ids + row
        run.x = x if ids is not NULL else x + row * target.x_stride
        row += run.length
        if ready or run.anchor != <int64_t> run.anchor:
            encode_run(run, run.x, plan, target, scratch, tile)
            continue
        window.count += 1
        if window.count == window.size:
            flush_window(scratch, plan, target, tile)


cdef void group_entries(Walk *walk, const Rectangle *rectangle, double start, PlanView *plan,
                        const Target *target, Scratch *scratch, real *tile) noexcept nogil:
    cdef View *views = walk.views
    cdef Py_ssize_t row = rectangle.row, entry
    seek(walk, rectangle.entry)
    for entry in range(rectangle.entries):
        group_rows(
            scratch, views[OUT].entry + row * target.stride,
            views[X].entry + (row * target.x_stride if views[IDS].data is NULL else 0),
            (<const int64_t *> views[IDS].entry) + row if views[IDS].data is not NULL else NULL,
            (<const double *> views[POSITIONS].entry) + row
            if views[POSITIONS].data is not NULL else NULL,
            start + row,
            (<const uint8_t *> views[MASK].entry) + row if views[MASK].data is not NULL else NULL,
            rectangle.rows, plan, target, tile)
        advance(walk)
    flush_window(scratch, plan, target, tile)


# A tile of rows is made once and stored in every batch entry, or added to it, while it is in cache.
cdef void encode_tiles(Walk *walk, const Rectangle *rectangle, double start, PlanView *plan,
                       const Target *target, real *tile, Py_ssize_t tile_rows) noexcept nogil:
    cdef View *out = &walk.views[OUT]
    cdef View *x = &walk.views[X]
    cdef const double *positions = <const double *> walk.views[POSITIONS].data
    cdef Target to_tile = tile_of(target, plan, False, tile)
    cdef Py_ssize_t first = rectangle.row, stop = rectangle.row + rectangle.rows, entry
    cdef real *rows
    cdef Run run
    run.ids = NULL
    while first < stop:
        run.length = min(stop - first, tile_rows)
        if positions is NULL and run.length < stop - first:
            run.length = rows_to_anchor_end(start + first, run.length)
        seek(walk, rectangle.entry)
        rows = tile_for(target, out.entry + first * target.stride, tile)
        encode_rows(<char *> rows, NULL, plan, &to_tile,
                    positions + first if positions is not NULL else NULL, start + first,
                    run.length, rows)
        trim_rows(rows, run.length, plan.n, target.width)
        for entry in range(rectangle.entries):
            run.out = out.entry + first * target.stride
            run.x = x.entry + first * target.x_stride
            store_rows(&run, rows, target)
            advance(walk)
        first += run.length


# Whether all batch entries have the positions of the first one.
cdef bint shares_positions(Walk *walk) noexcept nogil:
    cdef const View *positions = &walk.views[POSITIONS]
    cdef Py_ssize_t entry
    seek(walk, 0)
    for entry in range(walk.entries):
        if positions.entry != positions.data and memcmp(positions.entry, positions.data,
                                                        walk.length * sizeof(double)):
            return False
        advance(walk)
    return True


# The least of the positions, and in `span` how many integers there are from it to the largest:
# infinitely many if they are not all integers. It ends where there are more than `limit`.
cdef double span_of_positions(Walk *walk, double limit, double *span) noexcept nogil:
    cdef const double *positions
    cdef Py_ssize_t entry, row
    cdef double least = INFINITY, most = -INFINITY
    span[0] = INFINITY
    seek(walk, 0)
    for entry in range(walk.entries):
        positions = <const double *> walk.views[POSITIONS].entry
        for row in range(walk.length):
            if positions[row] != <double> (<int64_t> positions[row]):
                return least
            least = min(least, positions[row])
            most = max(most, positions[row])
        if most - least >= limit:
            return least
        advance(walk)
    span[0] = most - least + 1.0
    return least


# Rows that batch entries share are made once, and so are rows of positions that come several times:
# where all rows are made at once, as each range of a larger call would go through all positions.
cdef Traversal traversal_of(Walk *walk, const Target *target, size_t row, Py_ssize_t count,
                            Scratch *scratch) noexcept nogil:
    cdef const View *views = walk.views
    cdef bint plain = views[IDS].data is NULL and views[MASK].data is NULL
    cdef double span
    scratch.tabulated = NAN
    if views[POSITIONS].data is NULL and plain:
        return TILED if walk.entries > 1 or target.way != DIRECT else CONSECUTIVE
    if views[POSITIONS].data is NULL or count < walk.entries * walk.length:
        return GROUPED
    if plain and walk.entries > 1 and shares_positions(walk):
        return TILED
    scratch.tabulated = span_of_positions(walk, <double> MAX_TABLE / row, &span)
    if 2.0 * span <= count and span * row <= MAX_TABLE:
        scratch.tile_rows = <Py_ssize_t> span
        return TABULATED
    scratch.tabulated = NAN
    return GROUPED


# The rows of all positions.
cdef void tabulate(PlanView *plan, const Target *target, const Scratch *scratch,
                   real *tile) noexcept nogil:
    cdef Target to_tile = tile_of(target, plan, False, tile)
    encode_rows(<char *> tile, NULL, plan, &to_tile, NULL, scratch.tabulated, scratch.tile_rows,
                tile)
    trim_rows(tile, scratch.tile_rows, plan.n, target.width)


cdef void encode_range(Walk *walk, Py_ssize_t first, Py_ssize_t stop, Traversal traversal,
                       double start, PlanView *plan, const Target *target, Scratch *scratch,
                       real *tile) noexcept nogil:
    cdef View *out = &walk.views[OUT]
    cdef View *x = &walk.views[X]
    cdef Rectangle rectangle
    cdef Py_ssize_t entry
    if traversal == TABULATED:
        tabulate(plan, target, scratch, tile)
    while first < stop:
        rectangle = next_rectangle(walk, &first, stop)
        if traversal == GROUPED or traversal == TABULATED:
            group_entries(walk, &rectangle, start, plan, target, scratch, tile)
        elif traversal == TILED:
            encode_tiles(walk, &rectangle, start, plan, target, tile, scratch.tile_rows)
        else:
            seek(walk, rectangle.entry)
            for entry in range(rectangle.entries):
                encode_rows(out.entry + rectangle.row * target.stride,
                            x.entry + rectangle.row * target.x_stride, plan, target, NULL,
                            start + rectangle.row, rectangle.rows, tile)
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


# Rows of a tile: of several batch entries, few enough to stay in the level-1 cache beside what they
# are added to, or, where the output is streamed, enough for long stretches of memory; of one entry,
# the rows over an anchor, which are made in pairs, but a bounded number of bytes.
cdef Py_ssize_t rows_of_tile(const Walk *walk, const Target *target, size_t row,
                             Traversal traversal) noexcept nogil:
    cdef size_t most = min(<size_t> MAX_TILE, ANCHOR_SPACING * row)
    if traversal == TILED and walk.entries > 1:
        most = MAX_TILE if target.streams else TILE
    elif traversal == TILED:
        most = max(most, <size_t> TILE)
    return min(walk.length, <Py_ssize_t> max(1, most // row))


# Room for an anchor's row, for a tile, and for as many runs as may wait. Each begins a cache line,
# which half of the loads would cross elsewhere. Little of it is `local`, the caller's: a token
# takes less time than to allocate memory. False if there is no memory.
cdef bint allocate(Scratch *scratch, PlanView *plan, const Walk *walk, const Target *target,
                   size_t row, Traversal traversal, Py_ssize_t rows, char *local) noexcept nogil:
    cdef size_t anchor = 2 * plan.n * sizeof(double), tile = 0, size
    cdef Py_ssize_t max_runs = 0
    cdef char *free_scratch
    if traversal == GROUPED:
        max_runs = min(rows, <Py_ssize_t> WINDOW)
    elif traversal == TABULATED:
        max_runs = 1
    if traversal == TABULATED:
        tile = row * scratch.tile_rows
    elif traversal == TILED or target.way != DIRECT:
        scratch.tile_rows = min(rows, rows_of_tile(walk, target, row, traversal))
        tile = row * scratch.tile_rows
    if target.streams:
        anchor += APART_ROOM
        tile += APART_ROOM
    size = CACHE_LINE + align_up(anchor) + align_up(tile) + size_of_window(max_runs)
    scratch.memory = NULL
    if size > LOCAL:
        scratch.memory = malloc(size)
        if scratch.memory is NULL:
            return False
    free_scratch = <char *> align_up(<size_t> (local if size <= LOCAL else scratch.memory))
    plan.anchor = <double *> take(&free_scratch, anchor)
    scratch.tile = take(&free_scratch, tile)
    if target.streams:  # all rows that are read for one wait the same way, or never
        plan.anchor = <double *> place_like(<char *> plan.anchor, plan.offsets)
    begin_window(&scratch.window, free_scratch, max_runs)
    return True


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


# In place, x has brought the lines of the output to the caches: they are not streamed.
cdef Target target_of(cnp.ndarray out, cnp.ndarray x, const Walk *walk, double scale,
                      bint stream) noexcept:
    cdef Target target
    target.stride = walk.views[OUT].row_stride
    target.x_stride = walk.views[X].row_stride if x is not None else 0
    target.width = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
    target.format = format_of(out)
    target.scale = scale
    target.adds = x is not None
    target.streams = stream and walk.views[OUT].data != walk.views[X].data
    target.way = DIRECT
    return target


# How rows of the plan's frequencies reach the output. Where non-temporal stores cannot write them
# as they are made, contiguous ones are copied; others have ordinary stores.
cdef int choose_way(Target *target, const PlanView *plan, const Walk *walk,
                    size_t itemsize) except -1:
    cdef size_t strides = <size_t> target.stride
    cdef int axis
    if not -1 <= target.width - 2 * plan.n <= 1:
        refuse("plan")
    for axis in range(walk.axes):
        strides |= <size_t> walk.views[OUT].strides[axis]
    if target.format is not NULL or target.width != 2 * plan.n:
        target.way = STAGED
    elif target.streams and not can_stream(walk.views[OUT].data, strides, plan.n, itemsize,
                                           plan.interleaved):
        target.streams = target.stride == <Py_ssize_t> (target.width * itemsize)
        target.way = STREAMED if target.streams else DIRECT
    return 0


# out = PE, or x * scale + PE, of a walk and a plan that are checked.
cdef int encode_walk(Walk *walk, cnp.ndarray out, cnp.ndarray x, double start, PlanView *plan,
                     double scale, bint stream, Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Target target = target_of(out, x, walk, scale, stream)
    cdef Scratch scratch
    cdef PyThreadState *thread
    cdef Traversal traversal
    cdef char[LOCAL] local
    # 16-bit formats are added in float, and rounded from double
    cdef bint single = cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32 or (
        target.format is not NULL and target.adds)
    cdef size_t itemsize = sizeof(float) if single else sizeof(double), row
    cdef bint allocated
    choose_way(&target, plan, walk, itemsize)
    if first == stop:
        return 0
    row = made_width(plan.n, target.width) * itemsize
    thread = release_gil((stop - first) * target.width * cnp.PyArray_ITEMSIZE(out))
    traversal = traversal_of(walk, &target, row, stop - first, &scratch)
    allocated = allocate(&scratch, plan, walk, &target, row, traversal, stop - first, local)
    if allocated and single:
        encode_range(walk, first, stop, traversal, start, plan, &target, &scratch,
                     <float *> scratch.tile)
    elif allocated:
        encode_range(walk, first, stop, traversal, start, plan, &target, &scratch,
                     <double *> scratch.tile)
    take_gil(thread)
    if not allocated:
        raise MemoryError("posenc: no memory for a few rows of scratch")
    free(scratch.memory)
    return 0


# The same, of arguments as they come.
cdef int encode(cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids, double start,
                cnp.ndarray positions, cnp.ndarray mask, plan, double scale, bint stream,
                Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Walk walk
    cdef View views[VIEWS]
    cdef PlanView view
    view_plan(&view, plan)
    walk_sums(&walk, views, out, x, ids, start, positions, mask, cnp.NPY_FLOAT64, first, stop)
    return encode_walk(&walk, out, x, start, &view, scale, stream, first, stop)
