# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, freethreading_compatible=True
"""The kernels: see _core.pyi for what every argument must be.

This source is compiled once for each instruction set. All of them, and their twin in _numpy.py,
do the same IEEE operations in the same order, without contraction, so all give the same bits.

_rows.pxi makes a row, _runs.pxi writes many, _rotary.pxi turns pairs of columns, _positions.pxi
counts tokens; here is what Python calls.
"""

from libc.math cimport INFINITY, NAN, copysign, fabs
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cimport numpy as cnp
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE

cnp.import_array()

cdef extern from *:
    """
    #include <float.h>

    #if defined(__FAST_MATH__) || defined(_M_FP_FAST)
    #error "posenc's results need IEEE arithmetic: compile without fast-math"
    #endif
    #if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16 /* 16: _Float16 alone is different */
    #error "posenc's results need every operation rounded to its own type (on x86-32: -mfpmath=sse)"
    #endif

    #if defined(_MSC_VER) && defined(_M_X64)
    #include <windows.h>
    static int runs_avx2(void) { return IsProcessorFeaturePresent(40); }
    static int runs_avx512(void) { return IsProcessorFeaturePresent(41); }
    #elif defined(__GNUC__) && defined(__x86_64__)
    #include <cpuid.h>
    static int runs_avx2(void) {
        unsigned a, b, c = 0, d; /* c: F16C, which not every compiler knows by name */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
            && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    }
    static int runs_avx512(void) {
        return runs_avx2() && __builtin_cpu_supports("avx512f")
            && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl");
    }
    #else
    static int runs_avx2(void) { return 0; }
    static int runs_avx512(void) { return 0; }
    #endif
    """
    bint runs_avx2()
    bint runs_avx512()

cdef extern from "_vectors.h" nogil:
    ctypedef struct Row:
        char *out
        const char *x
        const char *next
    ctypedef struct Range:
        Py_ssize_t first
        Py_ssize_t end
    const size_t LINE
    const bint HAS_FMA
    double PRODUCT_ERROR(double a, double b, double product)
    Range turn_float(const Row *, const Row *, const double *anchor, const double *offset,
                     Py_ssize_t n, float scale, bint paired, bint stream)
    Range turn_double(const Row *, const Row *, const double *anchor, const double *offset,
                      Py_ssize_t n, double scale, bint paired, bint stream)
    Range stream_add_float(float *, const float *, const char *next, const float *, float scale,
                           Py_ssize_t count)
    Range stream_add_double(double *, const double *, const char *next, const double *,
                            double scale, Py_ssize_t count)
    void scale_float(float *, const float *, float scale, Py_ssize_t size)
    void scale_double(double *, const double *, double scale, Py_ssize_t size)
    void stream_copy(char *, const char *, const char *next, Py_ssize_t size)
    void stream_fence()

cdef extern from "_pairs.h" nogil:
    void repeat_paired_16(uint16_t *, const uint16_t *, Py_ssize_t n)
    void repeat_paired_32(uint32_t *, const uint32_t *, Py_ssize_t n)
    void repeat_paired_64(uint64_t *, const uint64_t *, Py_ssize_t n)

cdef extern from "_halves.h" nogil:
    void round_float16(uint16_t *, const double *, Py_ssize_t size)
    void round_bfloat16(uint16_t *, const double *, Py_ssize_t size)
    void add_float16(uint16_t *, const uint16_t *, const float *, float scale, Py_ssize_t size)
    void add_bfloat16(uint16_t *, const uint16_t *, const float *, float scale, Py_ssize_t size)
    void scale_float16(uint16_t *, const uint16_t *, float scale, Py_ssize_t size)
    void scale_bfloat16(uint16_t *, const uint16_t *, float scale, Py_ssize_t size)
    void widen_float16(float *, const uint16_t *, Py_ssize_t size)
    void widen_bfloat16(float *, const uint16_t *, Py_ssize_t size)
    void narrow_float16(uint16_t *, const float *, Py_ssize_t size)
    void narrow_bfloat16(uint16_t *, const float *, Py_ssize_t size)

ctypedef fused real:
    float
    double

# What rows are written in: what they are made in, or halves.
cdef enum Format:
    NATIVE
    FLOAT16
    BFLOAT16

cdef enum:
    # Rows of a table before its anchors, and the distance of these.
    NEAR = 64
    # Axes that `aligned` has room for: as many as NumPy has.
    MAX_AXES = 64
    # Fields of an encoder.
    FIELDS = 7
    # Columns whose sines and cosines are taken at a time.
    COLUMNS = 256
    # Bytes of a tile of rows that is added to every item of a batch, about: what stays in a level-1
    # cache, and where memory is what counts long stretches of it, half a level-2 cache.
    TILE = 1 << 13
    LONG_TILE = 1 << 19
    # Bytes of output up to which a call goes on at once: no threads, no signals to wait for; and up
    # to which it is over before another thread could take the GIL.
    SMALL = 1 << 24
    TINY = 1 << 14
    # Bytes that what is added to is asked for ahead.
    AHEAD = 4096
    # Runs of positions that are sorted by anchor at a time.
    WINDOW = 16384

include "_rows.pxi"
include "_runs.pxi"
include "_positions.pxi"


# An array's items and rows, to be reached without Python.
cdef struct Block:
    char *data
    Py_ssize_t items
    Py_ssize_t rows
    Py_ssize_t width
    Py_ssize_t item_stride
    Py_ssize_t row_stride
    Py_ssize_t itemsize


cdef Block block_of(cnp.ndarray array) noexcept:
    cdef Block block
    block.data = NULL
    if array is None:
        return block
    block.data = cnp.PyArray_BYTES(array)
    block.items = cnp.PyArray_DIM(array, 0)
    block.rows = cnp.PyArray_DIM(array, 1)
    block.width = cnp.PyArray_DIM(array, 2) if cnp.PyArray_NDIM(array) > 2 else 1
    block.item_stride = cnp.PyArray_STRIDE(array, 0)
    block.row_stride = cnp.PyArray_STRIDE(array, 1)
    block.itemsize = cnp.PyArray_ITEMSIZE(array)
    return block


# The rules that follow are those of _core.pyi, which Python has checked. Axes, shapes, dtypes and
# strides cost nanoseconds, and are checked once more: a mistake there must not reach other memory.
cdef int refuse(str name) except -1:
    raise ValueError(f"{name} does not fit the other arguments of the kernel")


# int64 has two numbers where long and long long are the same.
cdef inline bint is_of(cnp.ndarray array, int dtype) noexcept:
    return cnp.PyArray_TYPE(array) == dtype or (
        cnp.PyArray_EquivTypenums(cnp.PyArray_TYPE(array), dtype))


# Rows (items, rows, width), or (items, rows) of single elements if `width` is 0; None is fine.
cdef int check_rows(str name, cnp.ndarray array, Py_ssize_t items, Py_ssize_t rows,
                    Py_ssize_t width, int dtype) except -1:
    cdef int axes = 3 if width else 2
    cdef size_t itemsize
    if array is None:
        return 0
    itemsize = cnp.PyArray_ITEMSIZE(array)
    if not (cnp.PyArray_NDIM(array) == axes and cnp.PyArray_ISALIGNED(array)
            and cnp.PyArray_DIM(array, 0) == items and cnp.PyArray_DIM(array, 1) == rows
            and is_of(array, dtype)
            and (axes == 2 or cnp.PyArray_DIM(array, 2) == width)
            and (cnp.PyArray_DIM(array, axes - 1) < 2
                 or <size_t> cnp.PyArray_STRIDE(array, axes - 1) == itemsize)):
        refuse(name)
    return 0


# A table (any number, width) that is gathered from.
cdef int check_table(str name, cnp.ndarray array, Py_ssize_t width, int dtype) except -1:
    cdef size_t itemsize = cnp.PyArray_ITEMSIZE(array)
    if not (cnp.PyArray_NDIM(array) == 2 and cnp.PyArray_ISALIGNED(array)
            and cnp.PyArray_DIM(array, 1) == width and is_of(array, dtype)
            and (width < 2 or <size_t> cnp.PyArray_STRIDE(array, 1) == itemsize)):
        refuse(name)
    return 0


# What is written, (items, rows, width).
cdef int check_out(str name, cnp.ndarray out) except -1:
    if not (cnp.PyArray_NDIM(out) == 3 and cnp.PyArray_ISWRITEABLE(out)
            and cnp.PyArray_TYPE(out) in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64, cnp.NPY_FLOAT16,
                                          cnp.NPY_UINT16)):
        refuse(name)
    return check_rows(name, out, cnp.PyArray_DIM(out, 0), cnp.PyArray_DIM(out, 1),
                      cnp.PyArray_DIM(out, 2), cnp.PyArray_TYPE(out))


# What is added to, by whose rows, and where: all but the encoding itself.
cdef int check_sums(cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids, cnp.ndarray positions,
                    cnp.ndarray mask, int of_positions=cnp.NPY_FLOAT64) except -1:
    cdef Py_ssize_t items, rows, width
    cdef int dtype = cnp.PyArray_TYPE(out)
    check_out("out", out)
    items, rows = cnp.PyArray_DIM(out, 0), cnp.PyArray_DIM(out, 1)
    width = cnp.PyArray_DIM(out, 2)
    if ids is None:
        check_rows("x", x, items, rows, width, dtype)
    else:
        check_table("x", x, width, dtype)
    check_rows("ids", ids, items, rows, 0, cnp.NPY_INT64)
    check_rows("positions", positions, items, rows, 0, of_positions)
    check_rows("mask", mask, items, rows, 0, cnp.NPY_BOOL)
    return 0


# The number of frequencies of an encoder, once its arrays have that of _encoder.py.
cdef Py_ssize_t frequencies_of(encoder) except -1:
    cdef cnp.ndarray array
    cdef Py_ssize_t n = -1, item
    if not (PyTuple_Check(encoder) and PyTuple_GET_SIZE(encoder) == FIELDS):
        refuse("encoder")
    for item in range(3):
        if not cnp.PyArray_Check(<object> PyTuple_GET_ITEM(encoder, item)):
            refuse("encoder")
        array = <cnp.ndarray> PyTuple_GET_ITEM(encoder, item)
        if not (cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64 and cnp.PyArray_ISCARRAY_RO(array)
                and cnp.PyArray_NDIM(array) == (3 if item else 2)
                and cnp.PyArray_DIM(array, 0) >= (NEAR if item else 4)
                and (not item or cnp.PyArray_DIM(array, 1) == 2)
                and n in (-1, cnp.PyArray_DIM(array, 2 if item else 1))):
            refuse("encoder")
        n = cnp.PyArray_DIM(array, 2 if item else 1)
    return n


cdef Format format_of(cnp.ndarray array) noexcept:
    if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT16:
        return FLOAT16
    if cnp.PyArray_TYPE(array) == cnp.NPY_UINT16:
        return BFLOAT16
    return NATIVE


# The arrays of a call; `data` is NULL in those that are not there.
cdef struct Arrays:
    Block out
    Block x
    Block ids
    Block positions
    Block mask
    double start


cdef inline const char *row_of(const Block *block, Py_ssize_t item, Py_ssize_t row) noexcept nogil:
    if block.data is NULL:
        return NULL
    return block.data + item * block.item_stride + row * block.row_stride


cdef size_t whole_lines(size_t size) noexcept:
    return (size + LINE - 1) // LINE * LINE


# Rows that differ from item to item: in their positions, their ids or their mask.
cdef void write_runs(const Arrays *arrays, Encoder *e, const Target *target, real *spill,
                     Run *runs, Py_ssize_t *heads) noexcept nogil:
    cdef Py_ssize_t item, row, count = 0
    cdef const double *positions
    cdef const uint8_t *mask
    cdef Run *run
    for item in range(arrays.out.items):
        positions = <const double *> row_of(&arrays.positions, item, 0)
        mask = <const uint8_t *> row_of(&arrays.mask, item, 0)
        row = 0
        while row < arrays.out.rows:
            run = &runs[count]
            find_run(run, positions, arrays.start, mask, row, arrays.out.rows)
            run.out = <char *> row_of(&arrays.out, item, row)
            run.ids = <const int64_t *> row_of(&arrays.ids, item, row)
            run.x = row_of(&arrays.x, item, row) if run.ids is NULL else arrays.x.data
            row += run.length
            count += 1
            if count == WINDOW:  # as many as `prepare` has room for, or all there are
                write_window(runs, count, heads, e, target, spill)
                count = 0
    write_window(runs, count, heads, e, target, spill)


# A tile of rows is made once and added to every item of the batch while it is in cache.
cdef void add_tiles(const Arrays *arrays, Encoder *e, const Target *target, real *spill,
                    real *tile, Py_ssize_t tile_rows) noexcept nogil:
    cdef const Block *out = &arrays.out
    cdef const double *positions = <const double *> arrays.positions.data
    cdef Target to_tile = target[0]
    cdef Py_ssize_t width = out.width, first, count, item, row, rows
    cdef bint contiguous = out.row_stride == width * out.itemsize == arrays.x.row_stride
    cdef const char *x
    to_tile.adds = to_tile.streams = False
    to_tile.x_stride = 0
    to_tile.stride = width * sizeof(real)
    to_tile.format = NATIVE
    for first from 0 <= first < out.rows by tile_rows:
        count = min(out.rows - first, tile_rows)
        write_rows(<char *> tile, NULL, e, &to_tile,
                   positions + first if positions is not NULL else NULL, arrays.start + first,
                   count, spill)
        # contiguous rows are added as one
        rows = count if contiguous else 1
        for item in range(out.items):
            for row from 0 <= row < count by rows:
                x = row_of(&arrays.x, item, first + row)
                add_row(<char *> row_of(out, item, first + row), x, x + AHEAD,
                        tile + row * width, rows * width, target)


# A row of a table is added, as it stands, instead of one that is made.
cdef void add_looked_up(const Arrays *arrays, const Block *table, const Target *target,
                        real *wide) noexcept nogil:
    cdef Py_ssize_t width = arrays.out.width, item, row
    cdef const int64_t *positions
    cdef const uint8_t *mask
    cdef const char *looked_up
    cdef const char *x
    cdef char *out
    cdef Run run
    for item in range(arrays.out.items):
        positions = <const int64_t *> row_of(&arrays.positions, item, 0)
        mask = <const uint8_t *> row_of(&arrays.mask, item, 0)
        run.ids = <const int64_t *> row_of(&arrays.ids, item, 0)
        run.x = row_of(&arrays.x, item, 0) if run.ids is NULL else arrays.x.data
        for row in range(arrays.out.rows):
            out = <char *> row_of(&arrays.out, item, row)
            x = x_of(&run, row, target)
            if mask is not NULL and not mask[row]:
                scale_row(out, x, <real> target.scale, width, target)
                continue
            looked_up = row_of(table, positions[row], 0)  # one of its rows: `within` of _arrays.py
            if target.format == FLOAT16 and table.itemsize == sizeof(uint16_t):
                widen_float16(<float *> wide, <const uint16_t *> looked_up, width)
                looked_up = <const char *> wide
            elif target.format == BFLOAT16 and table.itemsize == sizeof(uint16_t):
                widen_bfloat16(<float *> wide, <const uint16_t *> looked_up, width)
                looked_up = <const char *> wide
            add_row(out, x, x_of(&run, min(row + 1, arrays.out.rows - 1), target),
                    <const real *> looked_up, width, target)


cdef struct Workspace:
    void *memory
    void *spill
    void *tile
    Py_ssize_t tile_rows
    Run *runs
    Py_ssize_t *heads


cdef const double *data_of(encoder, Py_ssize_t item) noexcept:
    return <const double *> cnp.PyArray_DATA(<cnp.ndarray> PyTuple_GET_ITEM(encoder, item))


# Room for an anchor's row and four spilled rows; for a tile of at most `rows`, for `runs`, if any.
cdef int prepare(Workspace *space, Encoder *e, Py_ssize_t n, Py_ssize_t rows, Py_ssize_t runs,
                 size_t itemsize, encoder, bint streams) except -1:
    cdef size_t anchor, spill, tile
    cdef char *aligned
    runs = min(runs, <Py_ssize_t> WINDOW)
    e.n = n
    e.turns = data_of(encoder, 0)
    e.table = data_of(encoder, 1)
    e.offsets = data_of(encoder, 2)
    e.paired = <object> PyTuple_GET_ITEM(encoder, 4)
    e.cos_first = <object> PyTuple_GET_ITEM(encoder, 5)
    e.amplitude = <object> PyTuple_GET_ITEM(encoder, 6)
    e.farthest = <double> (
        NEAR * (cnp.PyArray_DIM(<cnp.ndarray> PyTuple_GET_ITEM(encoder, 1), 0) - NEAR))
    e.smallest = 0.0
    e.held = NAN
    # Each begins a line, which half of the loads would cross elsewhere.
    anchor = whole_lines(2 * e.n * sizeof(double))
    spill = whole_lines(8 * e.n * itemsize)
    tile = 2 * e.n * itemsize
    space.tile_rows = min(rows, <Py_ssize_t> max(1, (LONG_TILE if streams else TILE) // tile))
    tile = whole_lines(tile * space.tile_rows)
    space.memory = malloc(
        LINE + anchor + spill + tile + runs * (sizeof(Run) + 2 * sizeof(Py_ssize_t)))
    if space.memory is NULL:
        raise MemoryError("posenc: no memory for a few rows of scratch")
    aligned = <char *> whole_lines(<size_t> space.memory)
    e.anchor = <double *> aligned
    space.spill = aligned + anchor
    space.tile = aligned + anchor + spill if rows else NULL
    space.runs = <Run *> (aligned + anchor + spill + tile) if runs else NULL
    space.heads = <Py_ssize_t *> (space.runs + runs) if runs else NULL
    return 0


cdef void write_as(const Arrays *arrays, Encoder *e, const Target *target, real *spill,
                   const Workspace *space) noexcept nogil:
    cdef Py_ssize_t item
    if space.runs is not NULL:
        write_runs(arrays, e, target, spill, space.runs, space.heads)
    elif space.tile is not NULL:
        add_tiles(arrays, e, target, spill, <real *> space.tile, space.tile_rows)
    else:
        for item in range(arrays.out.items):
            write_rows(<char *> row_of(&arrays.out, item, 0), row_of(&arrays.x, item, 0), e, target,
                       NULL, arrays.start, arrays.out.rows, spill)


cdef void write_all(bint single, const Arrays *arrays, Encoder *e, const Target *target,
                    const Workspace *space) noexcept nogil:
    if single:
        write_as(arrays, e, target, <float *> space.spill, space)
    else:
        write_as(arrays, e, target, <double *> space.spill, space)
    if target.streams:
        stream_fence()


cdef Target target_of(cnp.ndarray out, cnp.ndarray x, const Arrays *arrays, bint stream,
                      double scale) noexcept:
    cdef Target target
    target.stride = arrays.out.row_stride
    # where there are ids, x is a table of rows
    target.x_stride = (arrays.x.item_stride if arrays.ids.data is not NULL
                       else arrays.x.row_stride if x is not None else 0)
    target.scale = scale
    target.adds = x is not None
    target.streams = stream
    target.parts = False
    target.format = format_of(out)
    return target


cdef Arrays arrays_of(cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids, double start,
                      cnp.ndarray positions, cnp.ndarray mask) noexcept:
    cdef Arrays arrays
    arrays.out = block_of(out)
    arrays.x = block_of(x)
    arrays.ids = block_of(ids)
    arrays.positions = block_of(positions)
    arrays.mask = block_of(mask)
    arrays.start = start
    return arrays


cdef int write(cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids, double start,
               cnp.ndarray positions, cnp.ndarray mask, encoder, bint stream,
               double scale) except -1:
    cdef Py_ssize_t n = frequencies_of(encoder)
    check_sums(out, x, ids, positions, mask)
    return write_checked(out, x, ids, start, positions, mask, encoder, n, stream, scale)


cdef int write_checked(cnp.ndarray out, cnp.ndarray x, cnp.ndarray ids, double start,
                       cnp.ndarray positions, cnp.ndarray mask, encoder, Py_ssize_t n,
                       bint stream, double scale) except -1:
    cdef Arrays arrays = arrays_of(out, x, ids, start, positions, mask)
    cdef Target target = target_of(out, x, &arrays, stream, scale)
    return write_to(out, &arrays, &target, encoder, n)


cdef int write_to(cnp.ndarray out, const Arrays *arrays, const Target *target, encoder,
                  Py_ssize_t n) except -1:
    # halves are added to in float, and rounded from double
    cdef bint single = (cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32
                        or (target.format != NATIVE and target.adds))
    cdef Encoder e
    cdef Workspace space
    cdef Py_ssize_t items = arrays.out.items, rows = arrays.out.rows
    cdef bint tiles = target.adds and items > 1
    cdef bint runs = arrays.ids.data is not NULL or arrays.mask.data is not NULL or (
        arrays.positions.data is not NULL
        and (not tiles or arrays.positions.item_stride != 0))
    if arrays.out.width != 2 * n:
        refuse("encoder")
    prepare(&space, &e, n, rows if tiles and not runs else 0, items * rows if runs else 0,
            sizeof(float) if single else sizeof(double), encoder, target.streams)
    if cnp.PyArray_NBYTES(out) <= TINY:
        write_all(single, arrays, &e, target, &space)
    else:
        with nogil:
            write_all(single, arrays, &e, target, &space)
    free(space.memory)
    return 0


include "_rotary.pxi"


def instruction_sets():
    """The instruction sets beyond the baseline that this processor runs."""
    return [name for name, runs in (("avx2", runs_avx2()), ("avx512", runs_avx512())) if runs]


def aligned(cnp.ndarray buffer not None, tuple shape not None, cnp.dtype dtype not None):
    cdef cnp.npy_intp sizes[MAX_AXES]
    cdef char *first = cnp.PyArray_BYTES(buffer)
    cdef cnp.ndarray array
    cdef Py_ssize_t axes = len(shape), axis, size = cnp.PyDataType_ELSIZE(dtype)
    if axes > MAX_AXES:
        raise ValueError(f"an array has at most {MAX_AXES} axes, got {axes}")
    for axis in range(axes):
        sizes[axis] = shape[axis]
        size *= sizes[axis]
    first += -<size_t> first % LINE
    if size and first + size > cnp.PyArray_BYTES(buffer) + cnp.PyArray_NBYTES(buffer):
        refuse("buffer")
    array = cnp.PyArray_SimpleNewFromData(<int> axes, sizes, dtype.type_num, first)
    cnp.set_array_base(array, buffer)
    return array


def tabulate(cnp.ndarray table not None, cnp.ndarray turns not None, double reach):
    cdef double *rows = <double *> cnp.PyArray_DATA(table)
    cdef double *frequencies = <double *> cnp.PyArray_DATA(turns)
    cdef Py_ssize_t n = cnp.PyArray_DIM(turns, 1), count = cnp.PyArray_DIM(table, 0), row
    cdef double smallest, position
    if not (cnp.PyArray_NDIM(turns) == 2 and cnp.PyArray_DIM(turns, 0) == 4
            and cnp.PyArray_NDIM(table) == 3 and cnp.PyArray_DIM(table, 1) == 2
            and cnp.PyArray_DIM(table, 2) == n and cnp.PyArray_TYPE(table) == cnp.NPY_FLOAT64
            and cnp.PyArray_TYPE(turns) == cnp.NPY_FLOAT64
            and cnp.PyArray_ISCARRAY(table) and cnp.PyArray_ISCARRAY(turns)):
        refuse("table")
    with nogil:
        halve(frequencies + n, frequencies + 2 * n, frequencies, n)
        smallest = smallest_of(frequencies, n)
        for row in range(count):
            position = row if row < NEAR else NEAR * (row - NEAR + 1)
            direct(rows + 2 * row * n, rows + (2 * row + 1) * n, min(position, reach), frequencies,
                   n, smallest)


def fill(cnp.ndarray out not None, double start, cnp.ndarray positions, encoder, bint stream):
    write(out, None, None, start, positions, None, encoder, stream, 1.0)


def add(cnp.ndarray out not None, cnp.ndarray x not None, cnp.ndarray ids, double start,
        cnp.ndarray positions, cnp.ndarray mask, encoder, bint stream, double scale):
    write(out, x, ids, start, positions, mask, encoder, stream, scale)


cdef void add_rows_of(bint single, const Arrays *arrays, const Block *table,
                      const Target *target, void *wide) noexcept nogil:
    if single:
        add_looked_up(arrays, table, target, <float *> wide)
    else:
        add_looked_up(arrays, table, target, <double *> wide)
    if target.streams:
        stream_fence()


def add_rows(cnp.ndarray out not None, cnp.ndarray x not None, cnp.ndarray ids,
             cnp.ndarray positions not None, cnp.ndarray mask, cnp.ndarray rows not None,
             bint stream, double scale):
    cdef Arrays arrays
    cdef Target target
    cdef Block table
    cdef bint single = cnp.PyArray_TYPE(out) != cnp.NPY_FLOAT64
    cdef void *wide
    check_sums(out, x, ids, positions, mask, cnp.NPY_INT64)
    check_table("rows", rows, cnp.PyArray_DIM(out, 2),
                cnp.NPY_FLOAT32 if cnp.PyArray_ITEMSIZE(out) == 2
                and cnp.PyArray_TYPE(rows) == cnp.NPY_FLOAT32 else cnp.PyArray_TYPE(out))
    arrays = arrays_of(out, x, ids, 0.0, positions, mask)
    target = target_of(out, x, &arrays, stream, scale)
    table = block_of(rows)
    wide = malloc(arrays.out.width * sizeof(float))
    if wide is NULL:
        raise MemoryError("posenc: no memory for a row of scratch")
    if cnp.PyArray_NBYTES(out) <= TINY:
        add_rows_of(single, &arrays, &table, &target, wide)
    else:
        with nogil:
            add_rows_of(single, &arrays, &table, &target, wide)
    free(wide)


def add_at_once(out, x, start, scale, workers, encoder):
    cdef cnp.ndarray to, source
    cdef char *first
    cdef char *other
    cdef Py_ssize_t size
    cdef double near
    cdef int overflow = 0
    cdef long long begin
    cdef Py_ssize_t n
    if not (cnp.PyArray_CheckExact(out) and cnp.PyArray_CheckExact(x) and PyLong_CheckExact(start)
            and PyFloat_CheckExact(scale) and scale == scale and PyLong_CheckExact(workers)
            and workers == 1):
        return False
    to, source = out, x
    if not (cnp.PyArray_NDIM(to) == 3 == cnp.PyArray_NDIM(source)
            and cnp.PyArray_TYPE(to) == cnp.PyArray_TYPE(source)
            and cnp.PyArray_TYPE(to) in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64)
            and cnp.PyArray_ISCARRAY(to) and cnp.PyArray_ISCARRAY_RO(source)
            and cnp.PyArray_SAMESHAPE(to, source)):
        return False
    first, other, size = cnp.PyArray_BYTES(to), cnp.PyArray_BYTES(source), cnp.PyArray_NBYTES(to)
    if not (0 < size <= SMALL
            and (first == other or first + size <= other or other + size <= first)):
        return False
    n = frequencies_of(encoder)
    if cnp.PyArray_DIM(to, 2) != 2 * n:
        return False
    # No call of this size reaches a position out of bounds from here.
    near = <double> <object> PyTuple_GET_ITEM(encoder, 3) - SMALL / 8
    begin = PyLong_AsLongLongAndOverflow(start, &overflow)
    if overflow or not -near <= begin <= near:
        return False
    write_checked(to, source, None, begin, None, None, encoder, n, False, scale)
    return True
