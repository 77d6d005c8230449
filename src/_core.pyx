# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, freethreading_compatible=True
"""The kernels. Python checks, kernels trust: see _core.pyi for what every argument must be.

This source is compiled once for each instruction set. All of them, and their twin in _numpy.py,
do the same IEEE operations in the same order, without contraction, so all give the same bits.

_rows.pxi makes a row, _runs.pxi writes many; here is what Python calls.
"""

from libc.math cimport INFINITY, NAN, copysign, fabs
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cimport numpy as cnp

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
    static int runs_avx2(void) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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

cdef extern from "_stream.h" nogil:
    const bint HAS_FMA
    double PRODUCT_ERROR(double a, double b, double product)
    Py_ssize_t aligned_range(const void *to, Py_ssize_t size, Py_ssize_t count, Py_ssize_t *end)
    void stream_rotate_float(float *, float *, const double *, const double *,
                             Py_ssize_t n, bint paired, Py_ssize_t first, Py_ssize_t end)
    void stream_rotate_double(double *, double *, const double *, const double *,
                              Py_ssize_t n, bint paired, Py_ssize_t first, Py_ssize_t end)
    void stream_add_float(float *, const float *, const float *, float scale,
                          Py_ssize_t first, Py_ssize_t end)
    void stream_add_double(double *, const double *, const double *, double scale,
                           Py_ssize_t first, Py_ssize_t end)
    void stream_fence()

ctypedef fused real:
    float
    double

cdef enum:
    # Rows of a table before its anchors, and the distance of these.
    NEAR = 64
    # Bytes of a tile of rows that is added to every item of a batch, about: half a level-2 cache.
    TILE = 1 << 19
    # Bytes of output up to which a call goes on at once: no threads, no signals to wait for.
    SMALL = 1 << 20
    # Runs of positions that are sorted by anchor at a time.
    WINDOW = 16384

include "_rows.pxi"
include "_runs.pxi"


# An array's items and rows, to be reached without Python.
cdef struct Block:
    char *data
    Py_ssize_t items
    Py_ssize_t rows
    Py_ssize_t width
    Py_ssize_t item_stride
    Py_ssize_t row_stride


cdef Block block_of(cnp.ndarray array) noexcept:
    cdef Block block
    block.data = cnp.PyArray_BYTES(array)
    block.items = cnp.PyArray_DIM(array, 0)
    block.rows = cnp.PyArray_DIM(array, 1)
    block.width = cnp.PyArray_DIM(array, 2) if cnp.PyArray_NDIM(array) > 2 else 1
    block.item_stride = cnp.PyArray_STRIDE(array, 0)
    block.row_stride = cnp.PyArray_STRIDE(array, 1)
    return block


# Every row at a position of its own.
cdef void write_positions(const Block *out, const Block *x, const Block *positions, Encoder *e,
                          const Target *target, real *spill, Run *runs,
                          Py_ssize_t *heads) noexcept nogil:
    cdef Py_ssize_t item, row, count = 0
    cdef const double *where
    cdef Run *run
    for item in range(out.items):
        where = <const double *> (positions.data + item * positions.item_stride)
        row = 0
        while row < out.rows:
            run = &runs[count]
            find_run(run, where, 0.0, row, out.rows)
            run.out = out.data + item * out.item_stride + row * out.row_stride
            run.x = x.data + item * x.item_stride + row * x.row_stride
            row += run.length
            count += 1
            if count == WINDOW:
                write_window(runs, count, heads, e, target, spill)
                count = 0
    write_window(runs, count, heads, e, target, spill)


# A tile of rows is made once and added to every item of the batch while it is in cache.
cdef void add_tiles(const Block *out, const Block *x, const double *positions, double start,
                    Encoder *e, const Target *target, real *spill, real *tile,
                    Py_ssize_t tile_rows) noexcept nogil:
    cdef Target to_tile = target[0]
    cdef Py_ssize_t first, count, item, row, rows, size
    cdef char *to
    cdef const char *source
    cdef const double *where = NULL
    to_tile.adds = to_tile.streams = False
    to_tile.stride = size = out.width * sizeof(real)
    for first from 0 <= first < out.rows by tile_rows:
        count = min(out.rows - first, tile_rows)
        if positions is not NULL:
            where = positions + first
        write_rows(<char *> tile, e, &to_tile, where, start + first, count, spill)
        # contiguous rows are added as one
        rows = count if out.row_stride == size == x.row_stride else 1
        for item in range(out.items):
            to = out.data + item * out.item_stride + first * out.row_stride
            source = x.data + item * x.item_stride + first * x.row_stride
            for row from 0 <= row < count by rows:
                add_row(<real *> (to + row * out.row_stride),
                        <const real *> (source + row * x.row_stride),
                        tile + row * out.width, rows * out.width, target)


cdef struct Workspace:
    void *memory
    void *spill
    void *tile
    Py_ssize_t tile_rows
    Run *runs
    Py_ssize_t *heads


# Room for an anchor's row, two spilled rows and a tile; for runs where there are positions.
cdef int prepare(Workspace *space, Encoder *e, Py_ssize_t rows, Py_ssize_t runs, size_t itemsize,
                 cnp.ndarray turns, cnp.ndarray table, bint paired) except -1:
    cdef size_t anchor, spill, tile
    runs = min(runs, <Py_ssize_t> WINDOW)
    e.n = cnp.PyArray_DIM(turns, 1)
    e.paired = paired
    e.turns = <const double *> cnp.PyArray_DATA(turns)
    e.table = <const double *> cnp.PyArray_DATA(table)
    e.farthest = <double> (NEAR * (cnp.PyArray_DIM(table, 0) - NEAR))
    e.smallest = 0.0
    e.held = NAN
    anchor = 2 * e.n * sizeof(double)
    spill = 4 * e.n * itemsize
    tile = 2 * e.n * itemsize
    space.tile_rows = max(1, min(rows, <Py_ssize_t> (TILE // tile)))
    tile *= space.tile_rows
    space.memory = malloc(
        anchor + spill + tile + runs * (sizeof(Run) + 2 * sizeof(Py_ssize_t)))
    if space.memory is NULL:
        raise MemoryError("posenc: no memory for a few rows of scratch")
    space.runs = <Run *> space.memory
    space.heads = <Py_ssize_t *> (space.runs + runs)
    e.anchor = <double *> (space.heads + 2 * runs)
    space.spill = e.anchor + 2 * e.n
    space.tile = <char *> space.spill + spill
    return 0


def instruction_sets():
    """The instruction sets beyond the baseline that this processor runs."""
    return [name for name, runs in (("avx2", runs_avx2()), ("avx512", runs_avx512())) if runs]


def ready(out, x, Py_ssize_t d_model):
    cdef cnp.ndarray to, source
    cdef char *first
    cdef char *other
    cdef Py_ssize_t size
    if not (cnp.PyArray_CheckExact(out) and cnp.PyArray_CheckExact(x)):
        return False
    to, source = out, x
    if not (cnp.PyArray_NDIM(to) == 3 == cnp.PyArray_NDIM(source)
            and cnp.PyArray_TYPE(to) == cnp.PyArray_TYPE(source)
            and cnp.PyArray_TYPE(to) in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64)
            and cnp.PyArray_ISCARRAY(to) and cnp.PyArray_ISCARRAY_RO(source)
            and cnp.PyArray_DIM(to, 2) == d_model and cnp.PyArray_SAMESHAPE(to, source)):
        return False
    first, other, size = cnp.PyArray_BYTES(to), cnp.PyArray_BYTES(source), cnp.PyArray_NBYTES(to)
    return 0 < size <= SMALL and (
        first == other or first + size <= other or other + size <= first)


def direct_rows(cnp.ndarray out not None, cnp.ndarray positions not None,
                cnp.ndarray turns not None):
    cdef double *rows = <double *> cnp.PyArray_DATA(out)
    cdef const double *where = <const double *> cnp.PyArray_DATA(positions)
    cdef const double *frequencies = <const double *> cnp.PyArray_DATA(turns)
    cdef Py_ssize_t n = cnp.PyArray_DIM(turns, 1), count = cnp.PyArray_DIM(positions, 0), row
    cdef double smallest
    with nogil:
        smallest = smallest_of(frequencies, n)
        for row in range(count):
            direct(rows + 2 * row * n, where[row], frequencies, n, smallest)


def fill(cnp.ndarray out not None, double start, cnp.ndarray positions,
         cnp.ndarray turns not None, cnp.ndarray table not None, bint paired, bint stream):
    cdef bint single = cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32
    cdef Block rows = block_of(out), where
    cdef Target target
    cdef Encoder e
    cdef Workspace space
    cdef Py_ssize_t item
    target.stride = rows.row_stride
    target.x_stride = 0
    target.scale = 1.0
    target.adds = False
    target.streams = stream
    prepare(&space, &e, 0, 0 if positions is None else rows.items * rows.rows,
            cnp.PyArray_ITEMSIZE(out), turns, table, paired)
    if positions is not None:
        where = block_of(positions)
        with nogil:
            if single:
                write_positions(&rows, &rows, &where, &e, &target, <float *> space.spill,
                                space.runs, space.heads)
            else:
                write_positions(&rows, &rows, &where, &e, &target, <double *> space.spill,
                                space.runs, space.heads)
    else:
        with nogil:
            for item in range(rows.items):
                if single:
                    write_rows(rows.data + item * rows.item_stride, &e, &target, NULL, start,
                               rows.rows, <float *> space.spill)
                else:
                    write_rows(rows.data + item * rows.item_stride, &e, &target, NULL, start,
                               rows.rows, <double *> space.spill)
    stream_fence()
    free(space.memory)


def add(cnp.ndarray out not None, cnp.ndarray x not None, double start, cnp.ndarray positions,
        cnp.ndarray turns not None, cnp.ndarray table not None, bint paired, bint stream,
        double scale):
    cdef bint single = cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32
    cdef Block rows = block_of(out), source = block_of(x), where
    cdef Target target
    cdef Encoder e
    cdef Workspace space
    cdef const double *shared = NULL
    cdef bint own = False
    if positions is not None:
        where = block_of(positions)
        own = where.item_stride != 0 or rows.items == 1
        shared = <const double *> where.data
    target.stride = rows.row_stride
    target.x_stride = source.row_stride
    target.scale = scale
    target.adds = True
    target.streams = stream
    prepare(&space, &e, 0 if own else rows.rows, rows.items * rows.rows if own else 0,
            cnp.PyArray_ITEMSIZE(out), turns, table, paired)
    with nogil:
        if own and single:
            write_positions(&rows, &source, &where, &e, &target, <float *> space.spill,
                            space.runs, space.heads)
        elif own:
            write_positions(&rows, &source, &where, &e, &target, <double *> space.spill,
                            space.runs, space.heads)
        elif single:
            add_tiles(&rows, &source, shared, start, &e, &target, <float *> space.spill,
                      <float *> space.tile, space.tile_rows)
        else:
            add_tiles(&rows, &source, shared, start, &e, &target, <double *> space.spill,
                      <double *> space.tile, space.tile_rows)
    stream_fence()
    free(space.memory)
