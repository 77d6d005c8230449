# The short way of a call. Where all of its arguments are usual, they are checked here in place of
# _checks.py and _arrays.py, and the kernels compute the result. Anything else is declined before a
# byte is written: then Python says what is wrong with it, or does the call.
#
# Usual arrays have NumPy's own type and one of the four dtypes, and are C-contiguous, aligned and
# in native byte order. Usual numbers are Python's own ints and floats. There is one worker, and the
# result is small.
# Where a function here returns an array, None is what it declines.

# The shape of a result: some axes of rows, and that of the columns.
cdef struct Shape:
    int axes                  # of rows
    Py_ssize_t rows           # of all axes
    Py_ssize_t length         # rows of the last axis
    Py_ssize_t width
    cnp.npy_intp sizes[USUAL_AXES]

# Where the rows of a call may be: what a source has, as whole numbers and exactly.
cdef struct Bounds:
    double least
    double most
    int dtype                 # of positions, as the kernel takes them


cdef inline bint is_int(number, int64_t *value) noexcept:
    cdef int overflow = 0
    if not PyLong_CheckExact(number):
        return False
    value[0] = PyLong_AsLongLongAndOverflow(number, &overflow)
    return overflow == 0


cdef inline bint is_one(number) noexcept:
    cdef int64_t value
    return is_int(number, &value) and value == 1


# NaN is left to Python, which has one for all.
cdef inline bint is_factor(number, double *value) noexcept:
    cdef int64_t whole
    if PyFloat_CheckExact(number):
        value[0] = PyFloat_AS_DOUBLE(number)
        return value[0] == value[0]
    if not is_int(number, &whole):
        return False
    value[0] = <double> whole
    return True


cdef inline bint is_usual(array) noexcept:
    return cnp.PyArray_CheckExact(array) and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray> array)


cdef cnp.ndarray usual_array(given):
    return <cnp.ndarray> given if is_usual(given) else None


# The kernels' dtype for a dtype of the caller's, or -1: as `kernel_bits` of _formats.py.
cdef int kernel_dtype(cnp.dtype dtype) except -2:
    if not cnp.PyArray_ISNBO(dtype.byteorder):
        return -1
    if dtype.type_num in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64, cnp.NPY_FLOAT16):
        return dtype.type_num
    if cnp.PyTypeNum_ISUSERDEF(dtype.type_num):
        ml_dtypes = (<object> PyImport_GetModuleDict()).get("ml_dtypes")
        if <object> dtype.typeobj is getattr(ml_dtypes, "bfloat16", 0):
            return cnp.NPY_UINT16
    return -1


# The dtype that an argument stands for, float64 where it is None.
cdef cnp.dtype usual_dtype(dtype):
    cdef cnp.dtype found
    if dtype is None:
        return cnp.PyArray_DescrFromType(cnp.NPY_FLOAT64)
    if cnp.PyArray_DescrCheck(dtype):
        return dtype if kernel_dtype(dtype) >= 0 else None
    if not PyType_Check(dtype):
        return None
    found = cnp.PyArray_DescrFromTypeObject(dtype)
    return found if <object> found.typeobj is dtype and kernel_dtype(found) >= 0 else None


# Rows of floats as the kernels take them, of any width if `width` is 0.
cdef cnp.ndarray usual_rows(given, Py_ssize_t width):
    cdef cnp.ndarray array
    cdef int axes, dtype
    if not is_usual(given):
        return None
    array = <cnp.ndarray> given
    axes = cnp.PyArray_NDIM(array)
    if axes < 2 or (width and cnp.PyArray_DIM(array, axes - 1) != width):
        return None
    dtype = cnp.PyArray_TYPE(array)
    if dtype in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64):
        return array
    dtype = kernel_dtype(<cnp.dtype> cnp.PyArray_DESCR(array))
    if dtype < 0:
        return None
    # the caller's array outlives it
    return cnp.PyArray_SimpleNewFromData(axes, cnp.PyArray_DIMS(array), dtype,
                                         cnp.PyArray_DATA(array))


# The shape of so many axes of rows; False if they are none or many.
cdef bint shape_rows(Shape *shape, int axes, const cnp.npy_intp *sizes,
                     Py_ssize_t width) noexcept:
    cdef int axis
    if not 0 < axes < USUAL_AXES:
        return False
    shape.axes, shape.width, shape.rows = axes, width, 1
    for axis in range(axes):
        shape.sizes[axis] = sizes[axis]
        shape.rows *= sizes[axis]
    shape.length = sizes[axes - 1]
    shape.sizes[axes] = width
    return width > 0 and 0 < shape.rows <= min(SMALL // (2 * width), <Py_ssize_t> MAX_COPIED)


# The caller's output, or a new one, as the kernels take it; of any dtype if `dtype` is negative.
cdef cnp.ndarray usual_output(result, const Shape *shape, int dtype):
    cdef cnp.ndarray out = usual_rows(result, shape.width)
    cdef int axis
    if not (out is not None and cnp.PyArray_ISWRITEABLE(<cnp.ndarray> result)
            and (dtype < 0 or cnp.PyArray_TYPE(out) == dtype)
            and cnp.PyArray_NDIM(out) == shape.axes + 1
            and shape.rows * shape.width * cnp.PyArray_ITEMSIZE(out) <= SMALL):
        return None
    for axis in range(shape.axes):
        if cnp.PyArray_DIM(out, axis) != shape.sizes[axis]:
            return None
    return out


# An array over the bytes of a buffer, from its first cache line on.
cdef cnp.ndarray array_over(cnp.ndarray buffer, int axes, const cnp.npy_intp *sizes, int dtype):
    cdef Py_ssize_t skipped = -<size_t> cnp.PyArray_DATA(buffer) % CACHE_LINE
    cdef cnp.ndarray array = cnp.PyArray_SimpleNewFromData(
        axes, <cnp.npy_intp *> sizes, dtype, cnp.PyArray_BYTES(buffer) + skipped)
    cnp.set_array_base(array, buffer)
    return array


cdef cnp.ndarray new_rows(const Shape *shape, cnp.dtype dtype):
    cdef cnp.npy_intp size = shape.rows * shape.width * dtype.itemsize
    if size > SMALL:
        return None
    size += CACHE_LINE
    return array_over(cnp.PyArray_SimpleNew(1, &size, cnp.NPY_UINT8), shape.axes + 1, shape.sizes,
                      dtype.type_num)


# Whether two contiguous arrays share no memory.
cdef inline bint are_apart(cnp.ndarray a, cnp.ndarray b) noexcept:
    if cnp.PyArray_BYTES(a) > cnp.PyArray_BYTES(b):
        a, b = b, a
    return cnp.PyArray_BYTES(a) + cnp.PyArray_NBYTES(a) <= cnp.PyArray_BYTES(b)


# Whether two contiguous arrays of one shape and dtype are the same memory.
cdef inline bint is_same(cnp.ndarray a, cnp.ndarray b) noexcept:
    return cnp.PyArray_BYTES(a) == cnp.PyArray_BYTES(b)


# Whether the array has one number for each row, once its leading axes are broadcast.
cdef bint fits_rows(cnp.ndarray array, const Shape *shape) noexcept:
    cdef int axes = cnp.PyArray_NDIM(array), missing = shape.axes - axes, axis
    if not (0 < axes <= shape.axes and cnp.PyArray_DIM(array, axes - 1) == shape.length):
        return False
    for axis in range(axes - 1):
        if cnp.PyArray_DIM(array, axis) not in (1, shape.sizes[missing + axis]):
            return False
    return True


ctypedef fused number:
    int64_t
    double


cdef bint are_within(const number *values, Py_ssize_t count, number least,
                     number most) noexcept nogil:
    cdef bint within = True
    cdef Py_ssize_t i
    for i in range(count):
        within &= least <= values[i] <= most
    return within


# The numbers of an array in memory of our own, which has room for as many of eight bytes; False if
# one is out of bounds. They are checked where the kernel reads them, as another thread may change
# the array; and integers before float64 rounds them.
cdef bint copy_numbers(void *own, cnp.ndarray array, const Bounds *bounds) noexcept:
    cdef int64_t *integers = <int64_t *> own
    cdef double *floats = <double *> own
    cdef const int *narrow = <const int *> cnp.PyArray_DATA(array)
    cdef Py_ssize_t count = cnp.PyArray_SIZE(array), i
    cdef bint as_floats = bounds.dtype == cnp.NPY_FLOAT64
    if cnp.PyArray_TYPE(array) == cnp.NPY_INT32:
        for i in range(count):
            integers[i] = narrow[i]
    elif cnp.PyArray_TYPE(array) == cnp.NPY_INT64:
        memcpy(own, cnp.PyArray_DATA(array), count * sizeof(int64_t))
    elif as_floats and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64:
        memcpy(own, cnp.PyArray_DATA(array), count * sizeof(double))
        return are_within(floats, count, bounds.least, bounds.most)
    else:
        return False
    if not are_within(integers, count, <int64_t> bounds.least, <int64_t> bounds.most):
        return False
    if as_floats:
        for i in range(count):
            floats[i] = <double> integers[i]
    return True


# Positions or ids of our own, within bounds.
cdef cnp.ndarray own_numbers(given, const Shape *shape, const Bounds *bounds):
    cdef cnp.ndarray own
    if not (is_usual(given) and fits_rows(<cnp.ndarray> given, shape)):
        return None
    own = cnp.PyArray_SimpleNew(cnp.PyArray_NDIM(<cnp.ndarray> given),
                                cnp.PyArray_DIMS(<cnp.ndarray> given), bounds.dtype)
    return own if copy_numbers(cnp.PyArray_DATA(own), <cnp.ndarray> given, bounds) else None


# A mask of our own.
cdef cnp.ndarray own_mask(given, const Shape *shape):
    cdef cnp.ndarray own
    if not (is_usual(given) and cnp.PyArray_TYPE(<cnp.ndarray> given) == cnp.NPY_BOOL
            and fits_rows(<cnp.ndarray> given, shape)):
        return None
    own = cnp.PyArray_SimpleNew(cnp.PyArray_NDIM(<cnp.ndarray> given),
                                cnp.PyArray_DIMS(<cnp.ndarray> given), cnp.NPY_BOOL)
    memcpy(cnp.PyArray_DATA(own), cnp.PyArray_DATA(<cnp.ndarray> given), cnp.PyArray_SIZE(own))
    return own


# Whether an argument is given without which a call cannot go on.
cdef inline bint is_declined(given, own) noexcept:
    return own is None and given is not None


# The positions that a plan resolves.
cdef bint bound_plan(Bounds *bounds, plan) except -1:
    if not (PyTuple_Check(plan) and PyTuple_GET_SIZE(plan) == PLAN_FIELDS):
        return False
    bounds.most = <object> PyTuple_GET_ITEM(plan, MAX_POSITION)
    bounds.least = -bounds.most
    bounds.dtype = cnp.NPY_FLOAT64
    return True


# The rows of a table.
cdef void bound_table(Bounds *bounds, cnp.ndarray table) noexcept:
    bounds.least, bounds.most = 0, cnp.PyArray_DIM(table, 0) - 1
    bounds.dtype = cnp.NPY_INT64


# Whether `start` is usual, and the rows from there on are within bounds. Where there are positions,
# it is 0.
cdef bint is_start(start, int64_t *first, positions, Py_ssize_t length,
                   const Bounds *bounds) noexcept:
    if not is_int(start, first):
        return False
    if positions is not None:
        return first[0] == 0
    return <int64_t> bounds.least <= first[0] <= <int64_t> bounds.most - (length - 1)


# `fill` of `out`; of `out` or a new array for positions; or of a new table of `length` rows.
cdef short_fill(result, length, given_positions, dtype, start, plan, Py_ssize_t width):
    cdef Shape shape
    cdef Bounds bounds
    cdef cnp.ndarray out, positions, like
    cdef cnp.dtype wanted = None
    cdef int64_t first, rows = 0
    cdef cnp.npy_intp count
    cdef bint usual
    if length is not None:
        usual = is_int(length, &rows) and 0 < rows <= MAX_COPIED
        count = <cnp.npy_intp> rows if usual else 0
        usual = usual and shape_rows(&shape, 1, &count, width)
    else:
        like = usual_array(result if given_positions is None else given_positions)
        usual = like is not None and shape_rows(
            &shape, cnp.PyArray_NDIM(like) - (given_positions is None), cnp.PyArray_DIMS(like),
            width)
    if not (usual and bound_plan(&bounds, plan)
            and is_start(start, &first, given_positions, shape.length, &bounds)):
        return None
    if result is None or dtype is not None:
        wanted = usual_dtype(dtype)
        if wanted is None:
            return None
    positions = own_numbers(given_positions, &shape, &bounds)
    if is_declined(given_positions, positions):
        return None
    if result is None:
        result = new_rows(&shape, wanted)
    out = usual_output(result, &shape, -1 if wanted is None else kernel_dtype(wanted))
    if out is None:
        return None
    encode(out, None, None, first, positions, None, plan, 1.0, False, 0, shape.rows)
    return result


# `add`, and where there are ids, of rows of a table `x`; `rows` are a plan, or a learned table.
cdef short_add(result, given_x, given_ids, start, given_positions, given_mask, rows,
               double scale, Py_ssize_t width):
    cdef Shape shape
    cdef Bounds bounds, of_ids
    cdef cnp.ndarray out, ids, positions, mask, like, learned
    cdef cnp.ndarray x = usual_rows(given_x, width)
    cdef int64_t first
    if x is None:
        return None
    like = x if given_ids is None else usual_array(given_ids)
    if like is None or (given_ids is not None and cnp.PyArray_NDIM(x) != 2) or not shape_rows(
            &shape, cnp.PyArray_NDIM(like) - (given_ids is None), cnp.PyArray_DIMS(like), width):
        return None
    learned = usual_rows(rows, width)
    if learned is None:
        if not bound_plan(&bounds, rows):
            return None
    else:
        bound_table(&bounds, learned)
        if cnp.PyArray_NDIM(learned) != 2 or cnp.PyArray_TYPE(learned) != cnp.PyArray_TYPE(x):
            return None
    bound_table(&of_ids, x)
    if not is_start(start, &first, given_positions, shape.length, &bounds):
        return None
    positions = own_numbers(given_positions, &shape, &bounds)
    mask = own_mask(given_mask, &shape)
    ids = own_numbers(given_ids, &shape, &of_ids)
    if (is_declined(given_positions, positions) or is_declined(given_mask, mask)
            or is_declined(given_ids, ids)):
        return None
    if result is None:
        result = new_rows(&shape, <cnp.dtype> cnp.PyArray_DESCR(<cnp.ndarray> given_x))
    out = usual_output(result, &shape, cnp.PyArray_TYPE(x))
    if out is None or not ((ids is None and is_same(out, x)) or are_apart(out, x)):
        return None
    if learned is None:
        encode(out, x, ids, first, positions, mask, rows, scale, False, 0, shape.rows)
    elif are_apart(out, learned):
        gather(out, x, ids, first, positions, mask, learned, scale, False, 0, shape.rows)
    else:
        return None
    return result


# `rotate` by the positions of a plan without axes.
cdef short_rotate(result, given_x, start, given_positions, plan, Py_ssize_t dim, bint interleaved,
                  bint inverse):
    cdef Shape shape
    cdef Bounds bounds
    cdef cnp.ndarray out, positions
    cdef cnp.ndarray x = usual_rows(given_x, 0)
    cdef int64_t first
    cdef int axes
    if x is None:
        return None
    axes = cnp.PyArray_NDIM(x) - 1
    if not (cnp.PyArray_DIM(x, axes) >= dim
            and shape_rows(&shape, axes, cnp.PyArray_DIMS(x), cnp.PyArray_DIM(x, axes))
            and bound_plan(&bounds, plan)
            and is_start(start, &first, given_positions, shape.length, &bounds)):
        return None
    positions = own_numbers(given_positions, &shape, &bounds)
    if is_declined(given_positions, positions) or (
            positions is not None and cnp.PyArray_NDIM(positions) not in (1, axes)):
        return None
    if result is None:
        result = new_rows(&shape, <cnp.dtype> cnp.PyArray_DESCR(<cnp.ndarray> given_x))
    out = usual_output(result, &shape, cnp.PyArray_TYPE(x))
    if out is None or not (is_same(out, x) or are_apart(out, x)):
        return None
    rope_with_axes(out, x, first, () if positions is None else (positions,), True,
                   ((None, plan),), interleaved, inverse, False, 0, shape.rows)
    return result
