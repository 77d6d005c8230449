# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, freethreading_compatible=True
"""The kernels. Python checks, kernels trust: see _core.pyi for what every argument must be.

This source is compiled once for each instruction set. All of them, and their twin in _numpy.py,
do the same IEEE operations in the same order, without contraction, so all give the same bits.
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

# What a call needs to make rows: frequencies, the rows of positions 0 ... 63, 64, 128, 192, ...,
# and room for the row of another anchor, `held`. Such a row is its sines, then its cosines; those
# that are written have each sine beside its cosine if `paired`, else the same order.
cdef struct Encoder:
    Py_ssize_t n
    bint paired
    const double *turns
    const double *table
    double farthest
    double smallest
    double held
    double *anchor

# How rows are written: as they are, or added to x * scale. Strides in bytes.
cdef struct Target:
    Py_ssize_t stride
    Py_ssize_t x_stride
    double scale
    bint adds
    bint streams

# Rows of consecutive positions over one anchor: `low`, low + 1, ... from it.
cdef struct Run:
    char *out
    const char *x
    double anchor
    Py_ssize_t low
    Py_ssize_t length
    Py_ssize_t next


# Sine and cosine of one position at n frequencies.
#
# Angles are counted in quarter turns, frequencies are sums hi + lo of two doubles (turns: hi; its
# upper and its lower half; lo). The product with the position is exact (by Dekker 1971, from the
# halves), whole turns and then quarters are taken off exactly, and what is left, g + w with
# |g| <= 1/2, times pi/2 goes into minimax polynomials on [-pi/4, pi/4] (relative error 2^-57.9 for
# the sine, absolute 2^-64 for the cosine) with the angle's tail added to first order. Rounding to
# a multiple of 1 or 4 is the addition and subtraction of 1.5 * 2^52 or 2^54: ties to even, and it
# vectorises everywhere. `fused` takes the errors of the products from fused multiply-adds: the
# same doubles, where nothing underflows.
#
# Range: |position * hi| <= 2^53. Error: 1 ulp where the angle is below pi/4, else 2^-52.
cdef inline void sine_cosine(
    double *restrict sines, double *restrict cosines, double position,
    const double *restrict turns, Py_ssize_t n, bint fused,
) noexcept nogil:
    cdef double ROUND = 6755399441055744.0        # 1.5 * 2^52
    cdef double ROUND_4 = 27021597764222976.0     # 1.5 * 2^54
    cdef double SPLIT = 134217729.0               # 2^27 + 1
    cdef double QUARTER = 1.5707963267948966      # 0x1.921fb54442d18p+0
    cdef double QUARTER_UPPER = 1.5707963407039642  # 0x1.921fb58p+0
    cdef double QUARTER_LOWER = -1.3909067675399456e-08  # -0x1.dde974p-27
    cdef double QUARTER_LO = 6.123233995736766e-17  # 0x1.1a62633145c07p-54, pi/2 - QUARTER
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
    cdef double product, tail, rest, quarter, g, w, g_upper, g_lower, angle, angle_lo
    cdef double z, zz, s, c, odd, sign
    cdef Py_ssize_t i
    for i in range(n):
        # position * frequency = product + tail, in quarter turns
        product = position * turns[i]
        if fused:
            tail = PRODUCT_ERROR(position, turns[i], product)
        else:
            tail = ((upper * turns[n + i] - product) + upper * turns[2 * n + i]
                    + lower * turns[n + i]) + lower * turns[2 * n + i]
        tail = tail + position * turns[3 * n + i]
        # less whole turns, then less quarters; far out the tail is not small, so sum exactly
        rest = product - ((product + ROUND_4) - ROUND_4)
        quarter = ((rest + tail) + ROUND) - ROUND
        rest = rest - quarter
        g = rest + tail
        w = g - rest
        w = (rest - (g - w)) + (tail - w)
        # angle + angle_lo = pi / 2 * (g + w)
        angle = QUARTER * g
        if fused:
            angle_lo = PRODUCT_ERROR(QUARTER, g, angle)
        else:
            g_upper = SPLIT * g - (SPLIT * g - g)
            g_lower = g - g_upper
            angle_lo = ((QUARTER_UPPER * g_upper - angle) + QUARTER_UPPER * g_lower
                        + QUARTER_LOWER * g_upper) + QUARTER_LOWER * g_lower
        angle_lo = angle_lo + (QUARTER * w + QUARTER_LO * g)
        z = angle * angle
        zz = z * z
        s = (S1 + z * S2) + zz * ((S3 + z * S4) + zz * (S5 + z * S6))
        s = angle + (angle_lo + (z * angle) * s)
        c = (C1 + z * C2) + zz * ((C3 + z * C4) + zz * (C5 + z * C6))
        c = 1.0 - (0.5 * z - (zz * c - angle * angle_lo))
        # back by the quarters, -2 ... 2 of them once whole turns are off again
        quarter = quarter - ((quarter + ROUND_4) - ROUND_4)
        odd = fabs(quarter)
        sign = 1.0 - odd
        sines[i] = quarter * c if odd == 1.0 else sign * s
        cosines[i] = -quarter * s if odd == 1.0 else sign * c


cdef void direct(double *row, double position, const double *turns, Py_ssize_t n,
                 double smallest) noexcept nogil:
    # Below, an error of a product may be subnormal, and Dekker's then is another double.
    if HAS_FMA and fabs(position) * smallest > 1e-250:
        sine_cosine(row, row + n, position, turns, n, True)
    else:
        sine_cosine(row, row + n, position, turns, n, False)


cdef double smallest_of(const double *turns, Py_ssize_t n) noexcept nogil:
    cdef double smallest = INFINITY
    cdef Py_ssize_t i
    for i in range(n):
        smallest = min(smallest, fabs(turns[i]))
    return smallest


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
    if whole < NEAR:
        return 0.0
    return copysign(<double> ((whole + 31) & ~(<int64_t> 63)), position)


cdef const double *anchor_row(Encoder *e, double anchor) noexcept nogil:
    cdef Py_ssize_t index
    if 0.0 <= anchor <= e.farthest:
        index = <Py_ssize_t> anchor // NEAR
        if anchor == index * NEAR:
            return e.table + 2 * e.n * (index + NEAR - 1 if index else 0)
    if anchor != e.held:
        if e.smallest == 0.0:
            e.smallest = smallest_of(e.turns, e.n)
        direct(e.anchor, anchor, e.turns, e.n, e.smallest)
        e.held = anchor
    return e.anchor


# A row as it stands.
cdef inline void place(real *restrict out, const double *restrict row, Py_ssize_t n,
                       bint paired) noexcept nogil:
    cdef Py_ssize_t i
    if paired:
        for i in range(n):
            out[2 * i] = <real> row[i]
            out[2 * i + 1] = <real> row[n + i]
    else:
        for i in range(2 * n):
            out[i] = <real> row[i]


# The rows of positions anchor + k and anchor - k, by the addition theorems, at the frequencies from
# `first` to `end`. Each entry is two products and a sum in double, rounded once to `real`; the four
# products serve both rows. With the 2^-52 of `direct` on either side and three roundings, the error
# stays below 2^-50.
cdef inline void rotate(
    real *restrict plus, real *restrict minus, const double *restrict anchor,
    const double *restrict offset, Py_ssize_t n, bint paired, Py_ssize_t first, Py_ssize_t end,
) noexcept nogil:
    cdef double sc, cs, cc, ss
    cdef Py_ssize_t i
    if paired:
        for i in range(first, end):
            sc = anchor[i] * offset[n + i]
            cs = anchor[n + i] * offset[i]
            cc = anchor[n + i] * offset[n + i]
            ss = anchor[i] * offset[i]
            plus[2 * i] = <real> (sc + cs)
            plus[2 * i + 1] = <real> (cc - ss)
            minus[2 * i] = <real> (sc - cs)
            minus[2 * i + 1] = <real> (cc + ss)
    else:
        for i in range(first, end):
            sc = anchor[i] * offset[n + i]
            cs = anchor[n + i] * offset[i]
            cc = anchor[n + i] * offset[n + i]
            ss = anchor[i] * offset[i]
            plus[i] = <real> (sc + cs)
            plus[n + i] = <real> (cc - ss)
            minus[i] = <real> (sc - cs)
            minus[n + i] = <real> (cc + ss)


# The same, past the caches where the stores of all four halves of rows are aligned alike.
cdef void rotate_streaming(real *plus, real *minus, const double *anchor, const double *offset,
                           Py_ssize_t n, bint paired) noexcept nogil:
    cdef Py_ssize_t size = sizeof(real) * (2 if paired else 1)
    cdef Py_ssize_t end = n, other_end = n
    cdef Py_ssize_t first = aligned_range(plus, size, n, &end)
    if (first != aligned_range(minus, size, n, &other_end)
            or (not paired and first != aligned_range(plus + n, size, n, &other_end))):
        first = end = n
    rotate(plus, minus, anchor, offset, n, paired, 0, first)
    if real is float:
        stream_rotate_float(plus, minus, anchor, offset, n, paired, first, end)
    else:
        stream_rotate_double(plus, minus, anchor, offset, n, paired, first, end)
    rotate(plus, minus, anchor, offset, n, paired, end, n)


cdef inline void add_scaled(real *restrict out, const real *restrict x, const real *restrict row,
                            real scale, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(first, end):
        out[j] = x[j] * scale + row[j]


cdef inline void add_scaled_in_place(real *restrict x, const real *restrict row, real scale,
                                     Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(size):
        x[j] = x[j] * scale + row[j]


# out = x * scale + row, for a row or for several that are contiguous everywhere.
cdef void add_row(real *out, const real *x, const real *row, Py_ssize_t size,
                  const Target *target) noexcept nogil:
    cdef real scale = <real> target.scale
    cdef Py_ssize_t first, end = size
    if out == x:
        add_scaled_in_place(out, row, scale, size)
    elif target.streams:
        first = aligned_range(out, sizeof(real), size, &end)
        add_scaled(out, x, row, scale, 0, first)
        if real is float:
            stream_add_float(out, x, row, scale, first, end)
        else:
            stream_add_double(out, x, row, scale, first, end)
        add_scaled(out, x, row, scale, end, size)
    else:
        add_scaled(out, x, row, scale, 0, size)


# The rows of a run, two mirrored ones at a time.
cdef void write_run(const Run *run, Encoder *e, const Target *target,
                    real *spill) noexcept nogil:
    cdef const double *anchor = anchor_row(e, run.anchor)
    cdef const double *offset
    cdef Py_ssize_t low = run.low, high = run.low + run.length - 1
    cdef Py_ssize_t d = 2 * e.n, k
    cdef real *plus
    cdef real *minus
    cdef bint up, down
    for k in range(max(low, -high, 0), max(high, -low) + 1):
        offset = e.table + d * k
        up = low <= k <= high
        down = 0 < k and low <= -k <= high
        plus = minus = spill
        if target.adds:
            minus = spill + d
        else:
            if up:
                plus = <real *> (run.out + (k - low) * target.stride)
            if down:
                minus = <real *> (run.out - (k + low) * target.stride)
        if k == 0:
            place(plus, anchor, e.n, e.paired)
        elif anchor == e.table and not down:
            place(plus, offset, e.n, e.paired)
        elif target.streams and not target.adds:
            rotate_streaming(plus, minus, anchor, offset, e.n, e.paired)
        else:
            rotate(plus, minus, anchor, offset, e.n, e.paired, 0, e.n)
        if target.adds:
            if up:
                add_row(<real *> (run.out + (k - low) * target.stride),
                        <const real *> (run.x + (k - low) * target.x_stride), plus, d, target)
            if down:
                add_row(<real *> (run.out - (k + low) * target.stride),
                        <const real *> (run.x - (k + low) * target.x_stride), minus, d, target)


cdef inline double at(const double *positions, double start, Py_ssize_t row) noexcept nogil:
    return start + row if positions is NULL else positions[row]


# The longest run from `row` on.
cdef inline void find_run(Run *run, const double *positions, double start, Py_ssize_t row,
                          Py_ssize_t count) noexcept nogil:
    cdef double position = at(positions, start, row)
    cdef double anchor = anchor_of(position)
    run.anchor = anchor
    run.low = <Py_ssize_t> (position - anchor)
    run.length = 1
    while row + run.length < count:
        position = at(positions, start, row + run.length)
        if position - anchor != run.low + run.length or anchor_of(position) != anchor:
            return
        run.length += 1


# `count` rows, run by run.
cdef void write_rows(char *out, Encoder *e, const Target *target, const double *positions,
                     double start, Py_ssize_t count, real *spill) noexcept nogil:
    cdef Run run
    cdef Py_ssize_t row = 0
    run.x = NULL
    while row < count:
        find_run(&run, positions, start, row, count)
        run.out = out + row * target.stride
        write_run(&run, e, target, spill)
        row += run.length


# Runs over one anchor after one another, so that it is made once: `heads` begins a chain, of which
# Run.next are the links, for each of `size` hashes of an anchor.
cdef void write_window(Run *runs, Py_ssize_t count, Py_ssize_t *heads, Encoder *e,
                       const Target *target, real *spill) noexcept nogil:
    cdef Py_ssize_t size = 1, i, head
    while size < count:
        size *= 2
    for i in range(size):
        heads[i] = -1
    for i in range(count - 1, -1, -1):
        head = (<int64_t> runs[i].anchor // NEAR) & (size - 1)
        runs[i].next = heads[head]
        heads[head] = i
    for i in range(count):
        head = (<int64_t> runs[i].anchor // NEAR) & (size - 1)
        while heads[head] >= 0:
            write_run(&runs[heads[head]], e, target, spill)
            heads[head] = runs[heads[head]].next


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
    to_tile.adds = to_tile.streams = False
    to_tile.stride = size = out.width * sizeof(real)
    for first from 0 <= first < out.rows by tile_rows:
        count = min(out.rows - first, tile_rows)
        write_rows(<char *> tile, e, &to_tile, NULL if positions is NULL else positions + first,
                   start + first, count, spill)
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
