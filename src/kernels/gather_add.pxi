# Rows of a learned table, gathered by their positions, in place of rows that are made.

# From `row` on, up to `stop`: how many rows are added to consecutive rows of the table, or are not.
cdef Py_ssize_t rows_alike(const int64_t *positions, const uint8_t *mask, Py_ssize_t row,
                           Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t next = row + 1
    while next < stop and (mask is NULL or mask[next] == mask[row]) and (
            positions is NULL or positions[next] == positions[row] + (next - row)):
        next += 1
    return next - row


# A run's rows and rows of the table, one after another, or all as one where they are contiguous.
cdef void add_gathered(const Run *run, const char *rows, const View *table, const Target *target,
                       real *widened) noexcept nogil:
    cdef Py_ssize_t row
    cdef Run part = run[0]
    if target.format is NULL and table.row_stride == <Py_ssize_t> (target.width * sizeof(real)):
        store_rows(run, <const real *> rows, target)
        return
    part.length = 1
    for row in range(run.length):
        if target.format is not NULL and real is float:
            target.format.widen(<float *> widened, rows, target.width)
            store_rows(&part, widened, target)
        else:
            store_rows(&part, <const real *> rows, target)
        rows += table.row_stride
        part.out += target.stride
        if run.ids is not NULL:
            part.ids += 1
        else:
            part.x += target.x_stride


cdef void gather_rectangle(Walk *walk, const Rectangle *rectangle, Py_ssize_t start,
                           const View *table, const Target *target,
                           real *widened) noexcept nogil:
    cdef View *views = walk.views
    cdef Py_ssize_t entry, row, stop = rectangle.row + rectangle.rows, index
    cdef const int64_t *positions
    cdef const uint8_t *mask
    cdef Run run
    seek(walk, rectangle.entry)
    for entry in range(rectangle.entries):
        positions = <const int64_t *> views[POSITIONS].entry
        mask = <const uint8_t *> views[MASK].entry
        row = rectangle.row
        while row < stop:
            run.length = rows_alike(positions, mask, row, stop)
            run.out = views[OUT].entry + row * target.stride
            run.ids, run.x = NULL, views[X].entry
            if views[IDS].data is NULL:
                run.x += row * target.x_stride
            else:
                run.ids = (<const int64_t *> views[IDS].entry) + row
            if mask is not NULL and not mask[row]:
                scale_run(&run, target, <real> target.scale)
            else:
                # one of the table's rows: `check_indices` of _arrays.py, and `gather` for a start
                index = start + row if positions is NULL else positions[row]
                add_gathered(&run, table.data + index * table.row_stride, table, target, widened)
            row += run.length
        advance(walk)


cdef void gather_range(Walk *walk, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t start,
                       const View *table, const Target *target, real *widened) noexcept nogil:
    cdef Rectangle rectangle
    while first < stop:
        rectangle = next_rectangle(walk, &first, stop)
        gather_rectangle(walk, &rectangle, start, table, target, widened)
    if target.streams:
        stream_fence()


# out = x * scale + table[positions].
cdef int gather(cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids, double start,
                cnp.ndarray positions, cnp.ndarray mask, cnp.ndarray table, double scale,
                bint stream, Py_ssize_t first, Py_ssize_t stop) except -1:
    cdef Walk walk
    cdef View views[VIEWS]
    cdef View rows
    cdef Target target
    cdef bint single = cnp.PyArray_TYPE(out) != cnp.NPY_FLOAT64
    cdef void *widened
    cdef PyThreadState *thread
    walk_sums(&walk, views, out, x, ids, start, positions, mask, cnp.NPY_INT64, first, stop)
    target = target_of(out, x, &walk, scale, stream)
    view_of_table(&rows, &walk, "table", table, cnp.PyArray_TYPE(out), target.width)
    if positions is None and first < stop and not (
            0 <= start <= cnp.PyArray_DIM(table, 0) - walk.length):
        refuse("start")
    widened = NULL
    if target.format is not NULL:
        widened = malloc(target.width * sizeof(float))
        if widened is NULL:
            raise MemoryError("posenc: no memory for a row of scratch")
    thread = release_gil((stop - first) * target.width * cnp.PyArray_ITEMSIZE(out))
    if single:
        gather_range(&walk, first, stop, <Py_ssize_t> start, &rows, &target, <float *> widened)
    else:
        gather_range(&walk, first, stop, <Py_ssize_t> start, &rows, &target, <double *> widened)
    take_gil(thread)
    free(widened)
    return 0
