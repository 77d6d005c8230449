# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, freethreading_compatible=True
"""The kernels: see _core.pyi for what every argument must be.

This source is compiled once for each instruction set. All of them, and their twin in _numpy.py,
do the same IEEE operations in the same order, without contraction, so all give the same bits.

Here is what Python calls, and nothing else; docs/architecture.md says what lies in kernels/.
"""

from libc.math cimport INFINITY, NAN, copysign, fabs
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove

cimport numpy as cnp
from cpython.bool cimport PyBool_Check
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.object cimport PyObject
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.type cimport PyType_Check
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE

cnp.import_array()

cdef extern from "Python.h":
    ctypedef struct PyThreadState
    PyObject *PyImport_GetModuleDict()
    PyThreadState *PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState *thread)

cdef extern from "kernels/cpu.h":
    bint cpu_has_avx2()
    bint cpu_has_avx512()

cdef extern from "kernels/simd.h" nogil:
    const size_t CACHE_LINE
    const bint HAS_FMA
    const bint HAS_STREAM
    double product_error(double a, double b, double product)

cdef extern from "kernels/stretch.h" nogil:
    void add_row_float(float *out, const float *x, const float *row, float scale, Py_ssize_t count)
    void add_row_double(double *out, const double *x, const double *row, double scale,
                        Py_ssize_t count)
    void stream_sum_float(float *out, const float *x, const float *row, float scale,
                          Py_ssize_t count)
    void stream_sum_double(double *out, const double *x, const double *row, double scale,
                           Py_ssize_t count)
    void stream_copy(char *out, const char *made, Py_ssize_t size)
    void stream_fence()
    size_t bytes_to_cache_line(const void *address)
    const size_t APART_ROOM
    char *place_like(char *memory, const void *address)
    char *apart_from(char *memory, const void *out)
    char *apart_in_line(char *memory, const void *out)

cdef extern from "kernels/angle_addition.h" nogil:
    # Rows of consecutive positions over one anchor, from `low` to `high` after it.
    ctypedef struct Rows:
        char *out
        Py_ssize_t stride
        const char *x
        const int64_t *ids
        Py_ssize_t x_stride
        const char *next
        Py_ssize_t low
        Py_ssize_t high
        bint streams
    bint can_stream(const char *out, size_t strides, Py_ssize_t n, size_t itemsize,
                    bint interleaved)
    void add_angles_float(const Rows *rows, const double *anchor, const double *offsets,
                          bint tabulated, Py_ssize_t n, float scale, bint interleaved)
    void add_angles_double(const Rows *rows, const double *anchor, const double *offsets,
                           bint tabulated, Py_ssize_t n, double scale, bint interleaved)
    void scale_float(float *out, const float *x, float scale, Py_ssize_t size)
    void scale_double(double *out, const double *x, double scale, Py_ssize_t size)

cdef extern from "kernels/rope.h" nogil:
    ctypedef struct Rotation:
        char *out
        const char *x
        const char *angles
        Py_ssize_t out_step
        Py_ssize_t x_step
        Py_ssize_t angles_step
        Py_ssize_t count
        Py_ssize_t n
        size_t rest
        size_t ahead
        bint interleaved
    void rotate_float(const Rotation *rows)
    void rotate_double(const Rotation *rows)
    void repeat_interleaved(char *out, const char *values, Py_ssize_t n, size_t itemsize)

cdef extern from "kernels/formats.h" nogil:
    ctypedef struct Format:
        void (*round)(void *out, const double *row, Py_ssize_t size) noexcept nogil
        void (*add)(void *out, const void *x, const float *row, float scale,
                    Py_ssize_t size) noexcept nogil
        void (*scale)(void *out, const void *x, float scale, Py_ssize_t size) noexcept nogil
        void (*widen)(float *out, const void *row, Py_ssize_t size) noexcept nogil
        void (*rotate)(const Rotation *rows) noexcept nogil
        size_t itemsize
        int numpy_type
    const Format *FORMATS
    const int FORMAT_COUNT

ctypedef fused real:
    float
    double

include "kernels/sizes.pxi"
include "kernels/sincos.pxi"
include "kernels/anchors.pxi"
include "kernels/views.pxi"
include "kernels/walk.pxi"
include "kernels/gather_add.pxi"
include "kernels/rope.pxi"
include "kernels/concatenate.pxi"
include "kernels/short_way.pxi"
include "kernels/counting.pxi"


def instruction_sets():
    """The instruction sets beyond the baseline that this processor has."""
    return [name for name, has in (("avx2", cpu_has_avx2()), ("avx512", cpu_has_avx512())) if has]


def aligned_array(cnp.ndarray buffer not None, tuple shape not None, cnp.dtype dtype not None):
    cdef cnp.npy_intp sizes[MAX_AXES]
    cdef cnp.ndarray array
    cdef Py_ssize_t axis
    cdef int axes = <int> min(len(shape), MAX_AXES + 1)
    if axes > MAX_AXES:
        refuse("shape")
    for axis in range(axes):
        sizes[axis] = shape[axis]
    # NumPy refuses a negative size, and a number of bytes that overflows.
    array = array_over(buffer, axes, sizes, dtype.type_num)
    if not cnp.PyArray_ISCARRAY(buffer) or (
            cnp.PyArray_NBYTES(array) > cnp.PyArray_NBYTES(buffer) - (
                cnp.PyArray_BYTES(array) - cnp.PyArray_BYTES(buffer))):
        refuse("buffer")
    return array


def make_table(cnp.ndarray table not None, cnp.ndarray quarter_turns not None,
               double max_anchor_position):
    cdef double *rows = <double *> cnp.PyArray_DATA(table)
    cdef double *turns = <double *> cnp.PyArray_DATA(quarter_turns)
    cdef Py_ssize_t n, count, row
    cdef double smallest, position
    check_table(table, quarter_turns)
    n, count = cnp.PyArray_DIM(quarter_turns, 1), cnp.PyArray_DIM(table, 0)
    with nogil:
        veltkamp_split(turns + n, turns + 2 * n, turns, n)
        smallest = min_abs(turns, n)
        for row in range(count):
            position = row if row < ANCHOR_SPACING else ANCHOR_SPACING * (row - ANCHOR_SPACING + 1)
            sincos(rows + 2 * row * n, rows + (2 * row + 1) * n, min(position, max_anchor_position),
                   turns, n, smallest)


def try_fill(out, start, workers, plan, Py_ssize_t width):
    if not is_one(workers):
        return None
    return short_fill(out, None, None, None, start, plan, width)


def try_table(length, start, dtype, workers, plan, Py_ssize_t width):
    if dtype is None or not is_one(workers):
        return None
    return short_fill(None, length, None, dtype, start, plan, width)


def try_encode(out, positions, dtype, workers, plan, Py_ssize_t width):
    if positions is None or not is_one(workers):
        return None
    return short_fill(out, None, positions, dtype, 0, plan, width)


def try_add(out, x, start, positions, mask, scale, workers, rows, Py_ssize_t width):
    cdef double factor
    if not (is_one(workers) and is_factor(scale, &factor)):
        return None
    return short_add(out, x, None, start, positions, mask, rows, factor, width)


def try_embed(out, ids, weight, start, positions, mask, scale, workers, rows, Py_ssize_t width):
    cdef double factor
    if ids is None or not (is_one(workers) and is_factor(scale, &factor)):
        return None
    return short_add(out, weight, ids, start, positions, mask, rows, factor, width)


def try_rotate(out, x, start, positions, inverse, workers, plan, Py_ssize_t dim,
               bint interleaved):
    if not (is_one(workers) and PyBool_Check(inverse)):
        return None
    return short_rotate(out, x, start, positions, plan, dim, interleaved, inverse)


def fill(cnp.ndarray out not None, double start, cnp.ndarray positions, plan, bint stream,
         Py_ssize_t first, Py_ssize_t stop):
    encode(out, None, None, start, positions, None, plan, 1.0, stream, first, stop)


def add(cnp.ndarray out not None, cnp.ndarray x not None, cnp.ndarray ids, double start,
        cnp.ndarray positions, cnp.ndarray mask, plan, double scale, bint stream,
        Py_ssize_t first, Py_ssize_t stop):
    encode(out, x, ids, start, positions, mask, plan, scale, stream, first, stop)


def gather_add(cnp.ndarray out not None, cnp.ndarray x not None, cnp.ndarray ids, double start,
               cnp.ndarray positions, cnp.ndarray mask, cnp.ndarray table not None, double scale,
               bint stream, Py_ssize_t first, Py_ssize_t stop):
    gather(out, x, ids, start, positions, mask, table, scale, stream, first, stop)


def rotate(cnp.ndarray out not None, cnp.ndarray x not None, double start, tuple positions not None,
           tuple plans not None, bint interleaved, bint inverse, bint stream, Py_ssize_t first,
           Py_ssize_t stop):
    rope_with_axes(out, x, start, positions, True, plans, interleaved, inverse, stream, first, stop)


def tables(cnp.ndarray cosines not None, cnp.ndarray sines not None, double start,
           tuple positions not None, tuple plans not None, bint interleaved, Py_ssize_t first,
           Py_ssize_t stop):
    if not cnp.PyArray_ISWRITEABLE(sines):
        refuse("sines")
    rope_with_axes(cosines, sines, start, positions, False, plans, interleaved, False, False, first,
                   stop)


def concatenate(cnp.ndarray out not None, tuple parts not None, bint stream):
    concatenate_call(out, parts, stream)


def count_within(cnp.ndarray out not None, cnp.ndarray lengths not None):
    cdef const int64_t *length = <const int64_t *> cnp.PyArray_DATA(lengths)
    cdef Py_ssize_t count = cnp.PyArray_SIZE(lengths), left = cnp.PyArray_SIZE(out), i
    check_counts(out, lengths, cnp.NPY_INT64)
    for i in range(count):
        if not 0 <= length[i] <= left:
            refuse("lengths")
        left -= length[i]
    if left:
        refuse("lengths")
    with nogil:
        count_lengths(<int64_t *> cnp.PyArray_DATA(out), length, count)


def count_segments(cnp.ndarray out not None, cnp.ndarray begins not None):
    cdef Py_ssize_t size = cnp.PyArray_SIZE(out)
    check_counts(out, begins, cnp.NPY_BOOL)
    if cnp.PyArray_SIZE(begins) != size:
        refuse("begins")
    with nogil:
        count_from(<int64_t *> cnp.PyArray_DATA(out), <const uint8_t *> cnp.PyArray_DATA(begins),
                   size)


def count_kept(cnp.ndarray out not None, cnp.ndarray keep not None, int64_t base, int64_t pad):
    cdef Py_ssize_t size = cnp.PyArray_SIZE(out), length
    check_counts(out, keep, cnp.NPY_BOOL)
    if cnp.PyArray_SIZE(keep) != size:
        refuse("keep")
    length = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1)
    with nogil:
        count_kept_rows(<int64_t *> cnp.PyArray_DATA(out),
                        <const uint8_t *> cnp.PyArray_DATA(keep), size, length, base, pad)
