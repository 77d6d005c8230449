# Rows that are put together from rows of several tables, each by an index of its own, as in grids.

# Bytes that follow one another in the output and are not stored there yet. Rows need not begin
# where cache lines do, so a row on its own would store the lines at its ends in part.
cdef struct Stretch:
    char *out
    char *made                # in scratch
    Py_ssize_t size
    char *scratch             # NULL: bytes are stored at once, through the caches


# Store the whole cache lines, or all there is.
cdef void flush(Stretch *stretch, bint all_of_it) noexcept nogil:
    cdef Py_ssize_t size = stretch.size
    if not all_of_it:
        size -= <size_t> (stretch.out + size) % CACHE_LINE
    stream_copy(stretch.out, stretch.made, size)
    stretch.out += size
    stretch.size -= size
    # less than a line is left, and either a line or more was stored or nothing was
    memmove(stretch.made, stretch.made + size, stretch.size)


# Store what there is, and go on from `out`.
cdef void begin_stretch(Stretch *stretch, char *out) noexcept nogil:
    flush(stretch, True)
    stretch.out = out
    stretch.made = apart_from(stretch.scratch, out)


cdef inline void write(Stretch *stretch, char *out, const char *data,
                       Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t part
    if stretch.scratch is NULL:
        memcpy(out, data, size)
        return
    if out != stretch.out + stretch.size:
        begin_stretch(stretch, out)
    while size:
        part = min(size, <Py_ssize_t> TILE - stretch.size)
        memcpy(stretch.made + stretch.size, data, part)
        stretch.size += part
        data += part
        size -= part
        if stretch.size == TILE:
            flush(stretch, False)


cdef void concatenate_rows(Walk *walk, const Py_ssize_t *sizes, Stretch *stretch) noexcept nogil:
    cdef Py_ssize_t row
    cdef char *out
    cdef int part
    seek(walk, 0)
    for _ in range(walk.entries):
        for row in range(walk.length):
            out = walk.views[0].entry + row * walk.views[0].row_stride
            for part in range(1, walk.count):
                write(stretch, out, walk.views[part].entry + row * walk.views[part].row_stride,
                      sizes[part])
                out += sizes[part]
        advance(walk)
    if stretch.scratch is not NULL:
        flush(stretch, True)
        stream_fence()


# A view of rows (m, width) that are indexed by one axis of the walk; their bytes.
cdef Py_ssize_t view_of_part(View *view, const Walk *walk, cnp.ndarray rows, int axis,
                             int dtype) except -1:
    cdef int other
    check_rows("parts", rows, dtype)
    if not (0 <= axis <= walk.axes and cnp.PyArray_NDIM(rows) == 2 and cnp.PyArray_DIM(rows, 0) == (
            walk.length if axis == walk.axes else walk.shape[axis])):
        refuse("parts")
    view.data = cnp.PyArray_BYTES(rows)
    view.row_stride = 0
    for other in range(walk.axes):
        view.strides[other] = 0
    if axis == walk.axes:
        view.row_stride = cnp.PyArray_STRIDE(rows, 0)
    else:
        view.strides[axis] = cnp.PyArray_STRIDE(rows, 0)
    return cnp.PyArray_DIM(rows, 1) * cnp.PyArray_ITEMSIZE(rows)


cdef int concatenate_parts(Walk *walk, View *views, Py_ssize_t *sizes, Stretch *stretch,
                           cnp.ndarray out, tuple parts) except -1:
    cdef Py_ssize_t left, part
    cdef cnp.ndarray rows
    cdef PyThreadState *thread
    begin_walk(walk, views, out)
    left = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1) * cnp.PyArray_ITEMSIZE(out)
    walk.count = 1 + <int> len(parts)
    for part in range(1, walk.count):
        axis, rows = parts[part - 1]
        if rows is None:
            refuse("parts")
        sizes[part] = view_of_part(&views[part], walk, rows, axis, cnp.PyArray_TYPE(out))
        left -= sizes[part]
    if left:
        refuse("parts")
    merge_axes(walk)
    if not (walk.entries and walk.length):
        return 0
    thread = release_gil(cnp.PyArray_NBYTES(out))
    concatenate_rows(walk, sizes, stretch)
    take_gil(thread)
    return 0


# The same, with memory for the views and the bytes of each part, and for a stretch.
cdef int concatenate_call(cnp.ndarray out, tuple parts, bint stream) except -1:
    cdef Walk walk
    cdef Stretch stretch
    cdef int count = 1 + <int> min(len(parts), MAX_PARTS + 1)
    cdef size_t views = align_up(count * sizeof(View)), sizes = align_up(count * sizeof(Py_ssize_t))
    cdef char *memory
    if count > MAX_PARTS + 1:
        refuse("parts")
    memory = <char *> malloc(views + sizes + TILE + APART_ROOM)
    if memory is NULL:
        raise MemoryError("posenc: no memory for the parts of rows")
    stretch.out = stretch.made = stretch.scratch = memory + views + sizes if stream else NULL
    stretch.size = 0
    try:
        return concatenate_parts(&walk, <View *> memory, <Py_ssize_t *> (memory + views), &stretch,
                                 out, parts)
    finally:
        free(memory)
