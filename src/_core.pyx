# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, freethreading_compatible=True
"""The kernels. Python checks, kernels trust: see _core.pyi for what every argument must be.

This source is compiled once for each instruction set. All of them, and their twin in _numpy.py,
do the same IEEE operations in the same order, without contraction, so all give the same bits.
"""

from libc.math cimport NAN, copysign, fabs
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
    #if FLT_EVAL_METHOD != 0
    #error "posenc's results need every operation rounded to its own type (on x86-32: -mfpmath=sse)"
    #endif

    #if defined(_MSC_VER) && defined(_M_X64)
    #include <windows.h>
    static int runs_avx2(void) { return IsProcessorFeaturePresent(40); }
    static int runs_avx512(void) { return IsProcessorFeaturePresent(41); }
    #elif defined(__GNUC__) && defined(__x86_64__)
    static int runs_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }
    static int runs_avx512(void) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
    #else
    static int runs_avx2(void) { return 0; }
    static int runs_avx512(void) { return 0; }
    #endif
    """
    bint runs_avx2()
    bint runs_avx512()

ctypedef fused real:
    float
    double

# Rows of one tile of `add`: with 1024 columns of float32 they stay in a level-2 cache.
cdef enum:
    TILE = 32

# What a call needs to make rows. `anchor` holds the sines, then the cosines of position `held`.
cdef struct Encoder:
    Py_ssize_t n
    Py_ssize_t gap
    const double *turns
    const double *table
    double *anchor
    double held


# Sine and cosine of one position at n frequencies.
#
# Angles are counted in turns, frequencies are sums hi + lo of two doubles (turns: hi; its upper
# and its lower half; lo). The product with the position is exact (Dekker 1971, from the halves),
# whole turns and then quarter turns are taken off exactly, and what is left, g + w with
# |g| <= 1/8, times 2 pi goes into minimax polynomials on [-pi/4, pi/4] (relative error 2^-57.9
# for the sine, absolute 2^-64 for the cosine) with the angle's tail folded in to first order.
# Rounding to an integer is the addition and subtraction of 1.5 * 2^52: to even, like rint, and it
# vectorises everywhere.
#
# Range: |position * hi| <= 2^51. Error: 0.75 ulp where the angle is below pi/4, else 2^-52.
cdef void direct(
    double *restrict sines, double *restrict cosines, double position,
    const double *restrict turns, Py_ssize_t n,
) noexcept nogil:
    cdef double ROUND = 6755399441055744.0        # 1.5 * 2^52
    cdef double SPLIT = 134217729.0               # 2^27 + 1
    cdef double TAU = 6.283185307179586           # 0x1.921fb54442d18p+2
    cdef double TAU_UPPER = 6.283185362815857     # 0x1.921fb58p+2
    cdef double TAU_LOWER = -5.563627070159782e-08  # -0x1.dde974p-25, TAU - TAU_UPPER
    cdef double TAU_LO = 2.4492935982947064e-16   # 0x1.1a62633145c07p-52, 2 pi - TAU
    cdef double S1 = -0.1666666666666663          # -0x1.5555555555548p-3
    cdef double S2 = 0.008333333333322118         # 0x1.111111110f7d0p-7
    cdef double S3 = -0.00019841269829589558      # -0x1.a01a019bfdf0ap-13
    cdef double S4 = 2.7557313621391203e-06       # 0x1.71de3567d4dafp-19
    cdef double S5 = -2.5050747763583287e-08      # -0x1.ae5e5a92c77dcp-26
    cdef double S6 = 1.5896230192794875e-10       # 0x1.5d8fd20a10b33p-33
    cdef double C1 = 0.0416666666666666           # 0x1.555555555554cp-5
    cdef double C2 = -0.0013888888888874138       # -0x1.6c16c16c15184p-10
    cdef double C3 = 2.4801587289491827e-05       # 0x1.a01a019cb26f8p-16
    cdef double C4 = -2.7557314355240523e-07      # -0x1.27e4f80a76b5fp-22
    cdef double C5 = 2.0875723684190937e-09       # 0x1.1ee9ec47f2643p-29
    cdef double C6 = -1.135966985291976e-11       # -0x1.8faecf513c93bp-37
    cdef double upper = SPLIT * position - (SPLIT * position - position)
    cdef double lower = position - upper
    cdef double product, tail, rest, f, g, w, quarter, odd, angle, angle_lo
    cdef double z, r, half, s, c, sign
    cdef Py_ssize_t i
    for i in range(n):
        # position * frequency = product + tail, in turns
        product = position * turns[i]
        tail = ((upper * turns[n + i] - product) + upper * turns[2 * n + i]
                + lower * turns[n + i]) + lower * turns[2 * n + i]
        tail = tail + position * turns[3 * n + i]
        # less whole turns; far out the tail is not small, so sum the two exactly
        rest = product - ((product + ROUND) - ROUND)
        f = rest + tail
        r = f - rest
        tail = (rest - (f - r)) + (tail - r)
        # less quarter turns
        quarter = (4.0 * f + ROUND) - ROUND
        f = f - 0.25 * quarter
        g = f + tail
        w = tail - (g - f)
        # angle + angle_lo = 2 pi (g + w)
        angle = TAU * g
        f = SPLIT * g - (SPLIT * g - g)
        r = g - f
        angle_lo = ((f * TAU_UPPER - angle) + f * TAU_LOWER + r * TAU_UPPER) + r * TAU_LOWER
        angle_lo = angle_lo + (TAU * w + TAU_LO * g)
        z = angle * angle
        r = S2 + z * (S3 + z * (S4 + z * (S5 + z * S6)))
        f = z * angle
        s = angle - ((z * (0.5 * angle_lo - f * r) - angle_lo) - f * S1)
        r = z * (C1 + z * (C2 + z * (C3 + z * (C4 + z * (C5 + z * C6)))))
        half = 0.5 * z
        f = 1.0 - half
        c = f + (((1.0 - f) - half) + (z * r - angle * angle_lo))
        # back by quarter turns: quarter is now -2 ... 2
        quarter = quarter - 4.0 * ((0.25 * quarter + ROUND) - ROUND)
        odd = fabs(quarter)
        sign = 1.0 - odd
        sines[i] = quarter * c if odd == 1.0 else sign * s
        cosines[i] = -quarter * s if odd == 1.0 else sign * c


# The rows of positions anchor + k and anchor - k, by the addition theorems. Each entry is two
# products and a sum in double, rounded once to `real`; the four products serve both rows. With the
# 2^-52 of `direct` on either side and three roundings, the error stays below 2^-50.
cdef inline void rotate(
    real *restrict plus, real *restrict minus, const double *restrict anchor,
    const double *restrict offset, Py_ssize_t n, Py_ssize_t gap,
) noexcept nogil:
    cdef double sc, cs, cc, ss
    cdef Py_ssize_t i
    if gap == 1:
        for i in range(n):
            sc = anchor[i] * offset[n + i]
            cs = anchor[n + i] * offset[i]
            cc = anchor[n + i] * offset[n + i]
            ss = anchor[i] * offset[i]
            plus[2 * i] = <real> (sc + cs)
            plus[2 * i + 1] = <real> (cc - ss)
            minus[2 * i] = <real> (sc - cs)
            minus[2 * i + 1] = <real> (cc + ss)
    else:
        for i in range(n):
            sc = anchor[i] * offset[n + i]
            cs = anchor[n + i] * offset[i]
            cc = anchor[n + i] * offset[n + i]
            ss = anchor[i] * offset[i]
            plus[i] = <real> (sc + cs)
            plus[n + i] = <real> (cc - ss)
            minus[i] = <real> (sc - cs)
            minus[n + i] = <real> (cc + ss)


# The position whose sines and cosines a row is turned from. It depends on the row's position alone,
# so a row has the same bits in every slice; it is odd in the position, so PE(-p) mirrors PE(p).
# Up to 63 the anchor is 0 and the row comes from the table as it stands. Beyond, the anchor is the
# multiple of 64 nearest to it (a tie goes to the smaller), at most 32 away, a third of the position
# at most, so little cancels. A fractional position is its own anchor.
cdef inline double anchor_of(double position) noexcept nogil:
    cdef double size = fabs(position)
    cdef int64_t whole = <int64_t> size
    if size != whole:
        return position
    if whole < 64:
        return 0.0
    return copysign(<double> ((whole + 31) & ~(<int64_t> 63)), position)


cdef inline double at(const double *positions, double start, Py_ssize_t row) noexcept nogil:
    return start + row if positions is NULL else positions[row]


# `count` rows into `out`, `stride` bytes apart: of `positions`, or from `start` where that is NULL.
cdef void make_rows(
    real *out, Py_ssize_t stride, real *spill, Encoder *e,
    const double *positions, double start, Py_ssize_t count,
) noexcept nogil:
    cdef Py_ssize_t row = 0, run, low, high, k
    cdef double anchor, first, position
    cdef real *plus
    cdef real *minus
    while row < count:
        first = at(positions, start, row)
        anchor = anchor_of(first)
        low = <Py_ssize_t> (first - anchor)
        run = 1
        while row + run < count:
            position = at(positions, start, row + run)
            if position - anchor != low + run or anchor_of(position) != anchor:
                break
            run += 1
        if anchor != e.held:
            direct(e.anchor, e.anchor + e.n, anchor, e.turns, e.n)
            e.held = anchor
        # offsets low ... high from the anchor, two mirrored rows at a time
        high = low + run - 1
        for k in range(max(low, -high, 0), max(high, -low) + 1):
            plus = minus = spill
            if low <= k <= high:
                plus = <real *> (<char *> out + (row + k - low) * stride)
            if 0 < k and low <= -k <= high:
                minus = <real *> (<char *> out + (row - k - low) * stride)
            rotate(plus, minus, e.anchor, e.table + 2 * e.n * k, e.n, e.gap)
        row += run


cdef void fill_batch(cnp.ndarray out, real *spill, Encoder *e,
                     const char *positions, Py_ssize_t step, double start) noexcept:
    cdef char *data = cnp.PyArray_BYTES(out)
    cdef Py_ssize_t *shape = <Py_ssize_t *> cnp.PyArray_DIMS(out)
    cdef Py_ssize_t *strides = <Py_ssize_t *> cnp.PyArray_STRIDES(out)
    cdef Py_ssize_t item
    with nogil:
        for item in range(shape[0]):
            make_rows(<real *> (data + item * strides[0]), strides[1], spill, e,
                      <const double *> (positions + item * step), start, shape[1])


cdef inline void add_row(real *restrict out, const real *restrict x, const real *restrict row,
                         real scale, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(d):
        out[j] = x[j] * scale + row[j]


cdef inline void add_row_in_place(real *restrict x, const real *restrict row,
                                  real scale, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(d):
        x[j] = x[j] * scale + row[j]


# A tile of rows is made once and added to every item of the batch while it is in cache; items with
# positions of their own (step != 0) get a tile each.
cdef void add_batch(cnp.ndarray out, cnp.ndarray x, real scale, real *spill, Encoder *e,
                    const char *positions, Py_ssize_t step, double start) noexcept:
    cdef char *to = cnp.PyArray_BYTES(out)
    cdef const char *from_ = cnp.PyArray_BYTES(x)
    cdef Py_ssize_t *shape = <Py_ssize_t *> cnp.PyArray_DIMS(out)
    cdef Py_ssize_t *to_strides = <Py_ssize_t *> cnp.PyArray_STRIDES(out)
    cdef Py_ssize_t *from_strides = <Py_ssize_t *> cnp.PyArray_STRIDES(x)
    cdef Py_ssize_t d = shape[2], item, first, row, count
    cdef real *tile = spill + d
    cdef real *target
    cdef const real *source
    cdef const double *where = NULL
    with nogil:
        for first from 0 <= first < shape[1] by TILE:
            count = min(shape[1] - first, <Py_ssize_t> TILE)
            for item in range(shape[0]):
                if item == 0 or step != 0:
                    if positions is not NULL:
                        where = <const double *> (positions + item * step) + first
                    make_rows(tile, d * sizeof(real), spill, e, where, start + first, count)
                for row in range(count):
                    target = <real *> (to + item * to_strides[0] + (first + row) * to_strides[1])
                    source = <const real *> (
                        from_ + item * from_strides[0] + (first + row) * from_strides[1])
                    if target == source:
                        add_row_in_place(target, tile + row * d, scale, d)
                    else:
                        add_row(target, source, tile + row * d, scale, d)


cdef char *workspace(Encoder *e, cnp.ndarray out, Py_ssize_t rows, cnp.ndarray turns,
                     cnp.ndarray table, Py_ssize_t gap) except NULL:
    """An encoder's anchor row, then `rows` rows of out's type."""
    e.n = cnp.PyArray_DIM(turns, 1)
    e.gap = gap
    e.turns = <const double *> cnp.PyArray_DATA(turns)
    e.table = <const double *> cnp.PyArray_DATA(table)
    e.held = NAN
    e.anchor = <double *> malloc(2 * e.n * (sizeof(double) + rows * cnp.PyArray_ITEMSIZE(out)))
    if e.anchor is NULL:
        raise MemoryError("posenc: no memory for a few rows of scratch")
    return <char *> (e.anchor + 2 * e.n)


def instruction_sets():
    """The instruction sets beyond the baseline that this processor runs."""
    return [name for name, runs in (("avx2", runs_avx2()), ("avx512", runs_avx512())) if runs]


def direct_rows(cnp.ndarray out not None, cnp.ndarray positions not None,
                cnp.ndarray turns not None):
    cdef double *sines = <double *> cnp.PyArray_DATA(out)
    cdef const double *where = <const double *> cnp.PyArray_DATA(positions)
    cdef const double *frequencies = <const double *> cnp.PyArray_DATA(turns)
    cdef Py_ssize_t n = cnp.PyArray_DIM(turns, 1), count = cnp.PyArray_DIM(positions, 0), row
    with nogil:
        for row in range(count):
            direct(sines + 2 * row * n, sines + (2 * row + 1) * n, where[row], frequencies, n)


def fill(cnp.ndarray out not None, double start, cnp.ndarray positions,
         cnp.ndarray turns not None, cnp.ndarray table not None, Py_ssize_t gap):
    cdef Encoder e
    cdef const char *where = NULL
    cdef Py_ssize_t step = 0
    cdef char *spill = workspace(&e, out, 1, turns, table, gap)
    if positions is not None:
        where = cnp.PyArray_BYTES(positions)
        step = cnp.PyArray_STRIDE(positions, 0)
    if cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32:
        fill_batch[float](out, <float *> spill, &e, where, step, start)
    else:
        fill_batch[double](out, <double *> spill, &e, where, step, start)
    free(e.anchor)


def add(cnp.ndarray out not None, cnp.ndarray x not None, double scale, double start,
        cnp.ndarray positions, cnp.ndarray turns not None, cnp.ndarray table not None,
        Py_ssize_t gap):
    cdef Encoder e
    cdef const char *where = NULL
    cdef Py_ssize_t step = 0
    cdef Py_ssize_t rows = min(cnp.PyArray_DIM(out, 1), <Py_ssize_t> TILE)
    cdef char *spill = workspace(&e, out, 1 + rows, turns, table, gap)
    if positions is not None:
        where = cnp.PyArray_BYTES(positions)
        step = cnp.PyArray_STRIDE(positions, 0)
    if cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT32:
        add_batch[float](out, x, <float> scale, <float *> spill, &e, where, step, start)
    else:
        add_batch[double](out, x, scale, <double *> spill, &e, where, step, start)
    free(e.anchor)
