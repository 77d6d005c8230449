# How a row is made: from sines and cosines of its own, or turned from an anchor's.

# What a call needs to make rows: frequencies, the rows of positions 0 ... 63, 64, 128, 192, ...,
# and room for the row of another anchor, `held`. Such a row is its sines, then its cosines; those
# that are written have each sine beside its cosine if `paired`, else the same order.
#
# All of them times `amplitude`, and with the cosines first if `cos_first`, are turned by the same
# operations, from the rows of `offsets` without amplitude and with the sines' signs flipped:
# cos(a + b) = cos a cos b - sin a sin b has the cosine of a where the sine's theorem has the sine.
cdef struct Encoder:
    Py_ssize_t n
    bint paired
    bint cos_first
    double amplitude
    const double *turns
    const double *table
    const double *offsets
    double farthest
    double smallest
    double held
    double *anchor


# Sine and cosine of one position at `count` frequencies, at most COLUMNS, of n in all.
#
# Angles are counted in quarter turns, frequencies are sums hi + lo of two doubles (turns: hi; its
# upper and its lower half; lo). The product with the position is exact (by Dekker 1971, from the
# halves), whole turns and then quarters are taken off exactly, and what is left, g + w with
# |g| <= 1/2, times pi/2 goes into minimax polynomials on [-pi/4, pi/4] (relative error 2^-56.3 for
# the sine, absolute 2^-59.9 for the cosine) with the angle's tail added to first order. Rounding to
# a multiple of 1 or 4 is the addition and subtraction of 1.5 * 2^52 or 2^54: ties to even, and it
# vectorises everywhere. `fused` takes the errors of the products from fused multiply-adds: the
# same doubles, where nothing underflows. Reduction and polynomials are loops of their own: in one,
# the chain of operations is longer than a processor looks ahead.
#
# Range: |position * hi| <= 2^53. Error: 1.5 ulp where the angle is below pi/4, else 2^-52 up to 2^50
# quarter turns, and 2.4 * 2^-52 at 2^53: docs/numerics.md has the proof.
cdef inline void sine_cosine(
    double *restrict sines, double *restrict cosines, double position,
    const double *restrict turns, Py_ssize_t n, Py_ssize_t count, bint fused,
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
    cdef double quarters[COLUMNS]  # count <= COLUMNS: `direct`
    cdef Py_ssize_t i
    for i in range(count):
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
        sines[i] = g
        cosines[i] = (rest - (g - w)) + (tail - w)
        quarters[i] = quarter
    for i in range(count):
        g = sines[i]
        w = cosines[i]
        quarter = quarters[i]
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


# The halves of frequencies (Dekker 1971).
cdef void halve(double *restrict uppers, double *restrict lowers, const double *restrict turns,
                Py_ssize_t n) noexcept nogil:
    cdef double spread
    cdef Py_ssize_t i
    for i in range(n):
        spread = 134217729.0 * turns[i]
        uppers[i] = spread - (spread - turns[i])
        lowers[i] = turns[i] - uppers[i]


cdef void direct(double *sines, double *cosines, double position, const double *turns,
                 Py_ssize_t n, double smallest) noexcept nogil:
    # Below, an error of a product may be subnormal, and Dekker's then is another double.
    cdef bint fused = HAS_FMA and fabs(position) * smallest > 1e-250
    cdef Py_ssize_t i, count
    for i from 0 <= i < n by COLUMNS:
        count = min(n - i, <Py_ssize_t> COLUMNS)
        if fused:
            sine_cosine(sines + i, cosines + i, position, turns + i, n, count, True)
        else:
            sine_cosine(sines + i, cosines + i, position, turns + i, n, count, False)


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
    cdef int64_t whole = <int64_t> size  # size <= 2^53: `positions` and `start` of _arrays.py
    if size != whole:
        return position
    if whole < NEAR:
        return 0.0
    return copysign(<double> ((whole + NEAR // 2 - 1) & ~(<int64_t> NEAR - 1)), position)


cdef const double *anchor_row(Encoder *e, double anchor) noexcept nogil:
    cdef Py_ssize_t index, i
    if 0.0 <= anchor <= e.farthest:
        index = <Py_ssize_t> anchor // NEAR  # the table has a row for it, as anchor <= farthest
        if anchor == index * NEAR:
            return e.table + 2 * e.n * (index + NEAR - 1 if index else 0)
    if anchor != e.held:
        if e.smallest == 0.0:
            e.smallest = smallest_of(e.turns, e.n)
        direct(e.anchor + e.n if e.cos_first else e.anchor,
               e.anchor if e.cos_first else e.anchor + e.n, anchor, e.turns, e.n, e.smallest)
        if e.amplitude != 1.0:
            for i in range(2 * e.n):
                e.anchor[i] = e.amplitude * e.anchor[i]
        e.held = anchor
    return e.anchor


# A row as it stands, at the frequencies from `first` to `end`.
cdef inline void place(real *restrict out, const double *restrict row, Py_ssize_t n,
                       bint paired, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t i
    if paired:
        for i in range(first, end):
            out[2 * i] = <real> row[i]
            out[2 * i + 1] = <real> row[n + i]
    else:
        for i in range(first, end):
            out[i] = <real> row[i]
            out[n + i] = <real> row[n + i]


# The rows of positions anchor + k and anchor - k, by the addition theorems, at the frequencies from
# `first` to `end`. Each entry is two products and a sum in double, rounded once to `real`; the four
# products serve both rows. With the errors of both sides and three roundings, the error stays below
# 2^-50: docs/numerics.md.
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
