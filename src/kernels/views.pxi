# Arrays as they lie, to be walked without Python.

# One array of a call: its length axis, and its leading axes as they stand in the call's `Walk`.
# Strides are in bytes; that of an axis which is broadcast is 0.
cdef struct View:
    char *data                # NULL: the call has no such array
    char *entry               # the first row of the batch entry that the walk has come to
    Py_ssize_t row_stride
    Py_ssize_t strides[MAX_AXES]

# The rows of a call: `entries` batch entries of `length` rows each. Leading axes that lie behind
# one another in every array are one axis here.
cdef struct Walk:
    Py_ssize_t entries
    Py_ssize_t length
    int axes
    Py_ssize_t shape[MAX_AXES]
    Py_ssize_t index[MAX_AXES]
    View *views
    int count                 # of views; those of arrays that are not there stay where they are

# Rows `row` to row + rows of the batch entries `entry` to entry + entries.
cdef struct Rectangle:
    Py_ssize_t entry
    Py_ssize_t entries
    Py_ssize_t row
    Py_ssize_t rows


# What follows checks the rules of _core.pyi, which Python has checked, once more: axes, shapes,
# dtypes and strides cost nanoseconds, and a mistake there must not reach other memory.
cdef int refuse(str name) except -1:
    raise ValueError(f"{name} does not fit the other arguments of the kernel")


# int64 has two numbers where long and long long are the same.
cdef inline bint is_of(cnp.ndarray array, int dtype) noexcept:
    return cnp.PyArray_TYPE(array) == dtype or (
        cnp.PyArray_EquivTypenums(cnp.PyArray_TYPE(array), dtype))


# Aligned, of the dtype, with unit stride on the last axis.
cdef int check_rows(str name, cnp.ndarray array, int dtype) except -1:
    cdef int last = cnp.PyArray_NDIM(array) - 1
    if not (last >= 0 and cnp.PyArray_ISALIGNED(array) and is_of(array, dtype)
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


# A view of rows (..., length, width), or of their numbers (..., length) if `width` is 0, of which
# missing leading axes and those of 1 are broadcast. None is no array.
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


# Make one axis of neighbours that lie behind one another in every array, and none of those of 1.
cdef void merge_axes(Walk *walk) noexcept:
    cdef int axis, last = -1, v
    cdef bint merges
    cdef View *view
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


# Rows [first, stop) of the walk, once they are some of its rows.
cdef int check_range(const Walk *walk, Py_ssize_t first, Py_ssize_t stop) except -1:
    if not 0 <= first <= stop <= walk.entries * walk.length:
        refuse("stop")
    return 0


# The rectangle that rows [first, stop) of the walk begin with, and `first` behind it.
#
# Rows are counted in blocks of ANCHOR_SPACING rows of every batch entry: those of the first entry,
# of the next, and so on, and then the next block. So a range is a few rectangles wherever it is
# cut, and most of it is whole blocks, whose rows are made once for all entries.
cdef Rectangle next_rectangle(const Walk *walk, Py_ssize_t *first, Py_ssize_t stop) noexcept nogil:
    cdef Rectangle part
    cdef Py_ssize_t left = stop - first[0]
    cdef Py_ssize_t block = first[0] // (ANCHOR_SPACING * walk.entries)
    cdef Py_ssize_t begin = block * ANCHOR_SPACING
    cdef Py_ssize_t rows = min(walk.length - begin, <Py_ssize_t> ANCHOR_SPACING)
    cdef Py_ssize_t within = first[0] - begin * walk.entries
    part.entry = within // rows
    part.row = within - part.entry * rows
    if part.row or left < rows:  # a part of an entry's rows
        part.entries = 1
        part.rows = min(rows - part.row, left)
    elif part.entry or left < rows * walk.entries:  # some entries' rows
        part.entries = min(walk.entries - part.entry, left // rows)
        part.rows = rows
    else:  # of all entries, as many whole blocks as there are
        part.entries = walk.entries
        part.rows = min(walk.length - begin, left // walk.entries)
        if begin + part.rows < walk.length:
            part.rows -= part.rows % ANCHOR_SPACING
    part.row += begin
    first[0] += part.entries * part.rows
    return part


cdef size_t align_up(size_t size) noexcept:
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


# The 16-bit format of an array, NULL where it is float32 or float64.
cdef const Format *format_of(cnp.ndarray array) noexcept:
    cdef int i
    for i in range(FORMAT_COUNT):
        if cnp.PyArray_TYPE(array) == FORMATS[i].numpy_type:
            return &FORMATS[i]
    return NULL
