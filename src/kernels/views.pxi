# Iteration over the rows of strided arrays, without Python.

# One array of a call, with a stride for its length axis and one for each leading axis of the call's
# `Walk`. Strides are in bytes; that of an axis which is broadcast is 0.
cdef struct View:
    char *data                # NULL: the call has no such array
    char *entry               # first row of the walk's current batch entry
    Py_ssize_t row_stride
    Py_ssize_t strides[MAX_AXES]

# The rows of a call: `entries` batch entries of `length` rows each. Adjacent leading axes that can
# be traversed as one in every array are one axis here.
cdef struct Walk:
    Py_ssize_t entries
    Py_ssize_t length
    int axes
    Py_ssize_t shape[MAX_AXES]
    Py_ssize_t index[MAX_AXES]
    View *views
    int count                 # of views; the entry of an array that is not there stays NULL

# Rows `row` to row + rows of the batch entries `entry` to entry + entries.
cdef struct Rectangle:
    Py_ssize_t entry
    Py_ssize_t entries
    Py_ssize_t row
    Py_ssize_t rows


# What follows checks rules of _core.pyi that Python has checked before: axes, shapes, dtypes and
# strides cost nanoseconds, and a mistake there must not reach other memory.
cdef int refuse(str name) except -1:
    raise ValueError(f"{name} does not fit the other arguments of the kernel")


# NumPy has two type numbers for int64 where long and long long are of one size.
cdef inline bint is_of(cnp.ndarray array, int dtype) noexcept:
    return cnp.PyArray_TYPE(array) == dtype or (
        cnp.PyArray_EquivTypenums(cnp.PyArray_TYPE(array), dtype))


# Aligned, of the dtype in native byte order, with unit stride on the last axis.
cdef int check_rows(str name, cnp.ndarray array, int dtype) except -1:
    cdef int last = cnp.PyArray_NDIM(array) - 1
    if not (last >= 0 and cnp.PyArray_ISBEHAVED_RO(array) and is_of(array, dtype)
            and (cnp.PyArray_DIM(array, last) < 2
                 or cnp.PyArray_STRIDE(array, last) == cnp.PyArray_ITEMSIZE(array)
                 or cnp.PyArray_SIZE(array) == 0)):
        refuse(name)
    return 0


# The walk over the rows of `out` (..., length, width), whose view is the first.
cdef int begin_walk(Walk *walk, View *views, cnp.ndarray out) except -1:
    cdef int axis
    if not (cnp.PyArray_NDIM(out) >= 2 and cnp.PyArray_ISWRITEABLE(out)
            and (cnp.PyArray_TYPE(out) in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64)
                 or format_of(out) is not NULL)):
        refuse("out")
    walk.views = views
    walk.axes = cnp.PyArray_NDIM(out) - 2
    walk.length = cnp.PyArray_DIM(out, walk.axes)
    walk.entries = 1
    for axis in range(walk.axes):  # at most as many as NumPy has
        walk.shape[axis] = cnp.PyArray_DIM(out, axis)
        walk.entries *= walk.shape[axis]
    return view_of(&views[0], walk, "out", out, cnp.PyArray_TYPE(out),
                   cnp.PyArray_DIM(out, walk.axes + 1))


# A view of rows (..., length, width), or of one number for each row (..., length) if `width` is 0.
# Leading axes that are missing or of length 1 are broadcast. None is no array.
cdef int view_of(View *view, const Walk *walk, str name, cnp.ndarray array, int dtype,
                 Py_ssize_t width) except -1:
    cdef int axis, leading, missing
    view.data = view.entry = NULL
    if array is None:
        view.row_stride = 0
        for axis in range(walk.axes):
            view.strides[axis] = 0
        return 0
    check_rows(name, array, dtype)
    leading = cnp.PyArray_NDIM(array) - (2 if width else 1)
    missing = walk.axes - leading
    if not (0 <= leading and 0 <= missing and cnp.PyArray_DIM(array, leading) == walk.length
            and (width == 0 or cnp.PyArray_DIM(array, leading + 1) == width)):
        refuse(name)
    view.data = view.entry = cnp.PyArray_BYTES(array)
    view.row_stride = cnp.PyArray_STRIDE(array, leading)
    for axis in range(walk.axes):
        view.strides[axis] = 0
        if axis >= missing and cnp.PyArray_DIM(array, axis - missing) != 1:
            view.strides[axis] = cnp.PyArray_STRIDE(array, axis - missing)
            if cnp.PyArray_DIM(array, axis - missing) != walk.shape[axis]:
                refuse(name)
    return 0


# A view of a table (m, width), whose rows every batch entry gathers from.
cdef int view_of_table(View *view, const Walk *walk, str name, cnp.ndarray table, int dtype,
                       Py_ssize_t width) except -1:
    cdef int axis
    check_rows(name, table, dtype)
    if not (cnp.PyArray_NDIM(table) == 2 and cnp.PyArray_DIM(table, 1) == width):
        refuse(name)
    view.data = view.entry = cnp.PyArray_BYTES(table)
    view.row_stride = cnp.PyArray_STRIDE(table, 0)
    for axis in range(walk.axes):
        view.strides[axis] = 0
    return 0


# Coalesce adjacent axes where in every array the outer stride is the inner one times the inner
# length, and drop axes of length 1.
cdef void merge_axes(Walk *walk) noexcept:
    cdef int axis, last = -1, v
    cdef bint merges
    cdef View *view
    if not (walk.entries and walk.length):  # any strides, whose products may overflow
        return
    for axis in range(walk.axes):
        if walk.shape[axis] == 1:
            continue
        merges = last >= 0
        for v in range(walk.count):
            view = &walk.views[v]
            if merges and view.data is not NULL:
                merges = view.strides[last] == view.strides[axis] * walk.shape[axis]
        if merges:
            walk.shape[last] *= walk.shape[axis]
        else:
            last += 1
            walk.shape[last] = walk.shape[axis]
        for v in range(walk.count):
            walk.views[v].strides[last] = walk.views[v].strides[axis]
    walk.axes = last + 1


# Go to a batch entry.
cdef void seek(Walk *walk, Py_ssize_t entry) noexcept nogil:
    cdef Py_ssize_t above
    cdef int axis, v
    for v in range(walk.count):
        walk.views[v].entry = walk.views[v].data
    for axis in range(walk.axes - 1, -1, -1):
        above = entry // walk.shape[axis] if axis else 0
        walk.index[axis] = entry - above * walk.shape[axis]
        entry = above
        for v in range(walk.count):
            walk.views[v].entry += walk.index[axis] * walk.views[v].strides[axis]


# Go to the next batch entry, or from the last one to the first.
cdef inline void advance(Walk *walk) noexcept nogil:
    cdef int axis, v
    for axis in range(walk.axes - 1, -1, -1):
        walk.index[axis] += 1
        for v in range(walk.count):
            walk.views[v].entry += walk.views[v].strides[axis]
        if walk.index[axis] < walk.shape[axis]:
            return
        for v in range(walk.count):
            walk.views[v].entry -= walk.shape[axis] * walk.views[v].strides[axis]
        walk.index[axis] = 0


# Rows [first, stop) must be some of the walk's, and `start` a position: float64 has every integer
# up to 2^53.
cdef int check_range(const Walk *walk, double start, Py_ssize_t first, Py_ssize_t stop) except -1:
    # no overflow: NumPy bounds the product of the axes of an array that are not 0
    if not 0 <= first <= stop <= walk.entries * walk.length:
        refuse("stop")
    if not fabs(start) <= 9007199254740992.0:
        refuse("start")
    return 0


# The first rectangle of rows [first, stop) of the walk; `first` becomes the row after it.
#
# Rows are counted in blocks of ANCHOR_SPACING rows of every batch entry: those of the first entry,
# of the next, and so on, and then the next block. So a range is a few rectangles wherever it is
# cut, and most of it is whole blocks, whose rows are made once for all entries.
cdef Rectangle next_rectangle(const Walk *walk, Py_ssize_t *first, Py_ssize_t stop) noexcept nogil:
    cdef Rectangle rectangle
    cdef Py_ssize_t left = stop - first[0]
    cdef Py_ssize_t block = first[0] // walk.entries // ANCHOR_SPACING
    cdef Py_ssize_t begin = block * ANCHOR_SPACING
    cdef Py_ssize_t rows = min(walk.length - begin, <Py_ssize_t> ANCHOR_SPACING)
    cdef Py_ssize_t within = first[0] - begin * walk.entries
    rectangle.entry = within // rows
    rectangle.row = within - rectangle.entry * rows
    if rectangle.row or left < rows:  # a part of an entry's rows
        rectangle.entries = 1
        rectangle.rows = min(rows - rectangle.row, left)
    elif rectangle.entry or left < rows * walk.entries:  # some entries' rows
        rectangle.entries = min(walk.entries - rectangle.entry, left // rows)
        rectangle.rows = rows
    else:  # of all entries, as many whole blocks as there are
        rectangle.entries = walk.entries
        rectangle.rows = min(walk.length - begin, left // walk.entries)
        if begin + rectangle.rows < walk.length:
            rectangle.rows -= rectangle.rows % ANCHOR_SPACING
    rectangle.row += begin
    first[0] += rectangle.entries * rectangle.rows
    return rectangle


# The GIL is released for calls that write so many bytes: to release it costs 40 ns, more than small
# ones take. What runs in between must not need it.
cdef inline PyThreadState *release_gil(Py_ssize_t bytes) noexcept:
    return PyEval_SaveThread() if bytes > TINY else NULL


cdef inline void take_gil(PyThreadState *thread) noexcept:
    if thread is not NULL:
        PyEval_RestoreThread(thread)


cdef size_t align_up(size_t size) noexcept nogil:
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


# The next `size` bytes of scratch. What is taken begins a cache line, which half of the loads would
# cross elsewhere.
cdef void *take(char **scratch, size_t size) noexcept nogil:
    cdef void *taken = scratch[0]
    scratch[0] += align_up(size)
    return taken


# The 16-bit format of an array, NULL where it is float32 or float64.
cdef const Format *format_of(cnp.ndarray array) noexcept:
    cdef int i
    for i in range(FORMAT_COUNT):
        if cnp.PyArray_TYPE(array) == FORMATS[i].numpy_type:
            return &FORMATS[i]
    return NULL
