# Rows of a learned table, gathered by their positions, in place of rows that are made.

cdef void gather_rectangle(Walk *walk, const Rectangle *rectangle, Py_ssize_t start,
                           const View *table, const Target *target,
                           real *widened) noexcept nogil:
    cdef View *views = walk.views
    cdef Py_ssize_t entry, row, last = rectangle.row + rectangle.rows - 1, index
    cdef const int64_t *positions
    cdef const char *gathered
    cdef char *out
    cdef Run run
    seek(walk, rectangle.entry)
    for entry in range(rectangle.entries):
        positions = <const int64_t *> views[POSITIONS].entry
        run.x = views[X].entry
        run.ids = <const int64_t *> views[IDS].entry if views[IDS].data is not NULL else NULL
        for row in range(rectangle.row, last + 1):
            out = views[OUT].entry + row * target.stride
            if views[MASK].data is not NULL and not (<const uint8_t *> views[MASK].entry)[row]:
                scale_row(out, x_of(&run, row, target), <real> target.scale, target.width, target)
                continue
            # one of the table's rows: `check_indices` of _arrays.py, and `gather` for a start
            index = start + row if views[POSITIONS].data is NULL else positions[row]
            gathered = table.data + index * table.row_stride
            if target.format is not NULL and real is float:
                target.format.widen(<float *> widened, gathered, target.width)
                gathered = <const char *> widened
            add_row(out, x_of(&run, row, target), x_of(&run, min(row + 1, last), target),
                    <const real *> gathered, target.width, target)
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
