# Sine and cosine of one position at many frequencies, with nothing from libm.
#
# Angles are counted in quarter turns: 2/pi is folded into the frequency, a double-double (hi + lo),
# as in sinpi and cospi. So neither Cody-Waite nor Payne-Hanek reduction is needed: range reduction
# is the exact subtraction of integers. The product with the position is exact, by Dekker (1971)
# from the parts of Veltkamp's split, or by a fused multiply-add, which is the same double where
# nothing underflows. What is left, r_hi + r_lo with |r_hi| <= 1/2, times pi/2 goes into minimax
# polynomials on [-pi/4, pi/4] (relative error 2^-56.3 for the sine, absolute 2^-59.9 for the
# cosine), with the low part of the angle added to first order.
#
# Rounding to a multiple of 1 or 4 is the addition and subtraction of 1.5 * 2^52 or 2^54: ties to
# even, and it vectorises everywhere.
#
# Range: |position * hi| <= 2^53. Error: 1.5 ulp where the angle is below pi/4, else 2^-52 up to
# 2^50 quarter turns, and 2.4 * 2^-52 at 2^53. Coefficients: tools/minimax.py. Proof:
# docs/numerics.md.

# Veltkamp's split of frequencies: uppers have 26 bits, lowers the rest.
cdef void veltkamp_split(double *restrict uppers, double *restrict lowers,
                         const double *restrict frequencies, Py_ssize_t n) noexcept nogil:
    cdef double scaled
    cdef Py_ssize_t i
    for i in range(n):
        scaled = 134217729.0 * frequencies[i]
        uppers[i] = scaled - (scaled - frequencies[i])
        lowers[i] = frequencies[i] - uppers[i]


# Range reduction at `count` frequencies of n in all: position * frequency, in quarter turns, less
# whole turns, is r_hi + r_lo + quadrant. The rows of `quarter_turns` are hi, its split, and lo.
cdef inline void reduce(
    double *restrict r_hi, double *restrict r_lo, double *restrict quadrant, double position,
    const double *restrict quarter_turns, Py_ssize_t n, Py_ssize_t count, bint fused,
) noexcept nogil:
    cdef double ROUND = 6755399441055744.0        # 1.5 * 2^52
    cdef double ROUND_4 = 27021597764222976.0     # 1.5 * 2^54
    cdef double SPLIT = 134217729.0               # 2^27 + 1
    cdef double upper = SPLIT * position - (SPLIT * position - position)
    cdef double lower = position - upper
    cdef double product, tail, rest, quarters, hi, added
    cdef Py_ssize_t i
    for i in range(count):
        # position * frequency = product + tail
        product = position * quarter_turns[i]
        if fused:
            tail = product_error(position, quarter_turns[i], product)
        else:
            tail = ((upper * quarter_turns[n + i] - product) + upper * quarter_turns[2 * n + i]
                    + lower * quarter_turns[n + i]) + lower * quarter_turns[2 * n + i]
        tail = tail + position * quarter_turns[3 * n + i]
        # less whole turns, then less quarters; far out the tail is not small, so sum exactly
        rest = product - ((product + ROUND_4) - ROUND_4)
        quarters = ((rest + tail) + ROUND) - ROUND
        rest = rest - quarters
        hi = rest + tail
        added = hi - rest
        r_hi[i] = hi
        r_lo[i] = (rest - (hi - added)) + (tail - added)
        quadrant[i] = quarters


# Sines and cosines of reduced angles, in place of r_hi and r_lo.
cdef inline void sincos_poly(double *restrict sines, double *restrict cosines,
                             const double *restrict quadrant, Py_ssize_t count,
                             bint fused) noexcept nogil:
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
    cdef double r_hi, r_lo, upper, lower, angle, angle_lo, z, zz, s, c, quarters, odd, sign
    cdef Py_ssize_t i
    for i in range(count):
        r_hi = sines[i]
        r_lo = cosines[i]
        # angle + angle_lo = pi / 2 * (r_hi + r_lo)
        angle = QUARTER * r_hi
        if fused:
            angle_lo = product_error(QUARTER, r_hi, angle)
        else:
            upper = SPLIT * r_hi - (SPLIT * r_hi - r_hi)
            lower = r_hi - upper
            angle_lo = ((QUARTER_UPPER * upper - angle) + QUARTER_UPPER * lower
                        + QUARTER_LOWER * upper) + QUARTER_LOWER * lower
        angle_lo = angle_lo + (QUARTER * r_lo + QUARTER_LO * r_hi)
        z = angle * angle
        zz = z * z
        s = (S1 + z * S2) + zz * ((S3 + z * S4) + zz * (S5 + z * S6))
        s = angle + (angle_lo + (z * angle) * s)
        c = (C1 + z * C2) + zz * ((C3 + z * C4) + zz * (C5 + z * C6))
        c = 1.0 - (0.5 * z - (zz * c - angle * angle_lo))
        # back by the quarters, -2 ... 2 of them once whole turns are off again
        quarters = quadrant[i] - ((quadrant[i] + ROUND_4) - ROUND_4)
        odd = fabs(quarters)
        sign = 1.0 - odd
        sines[i] = quarters * c if odd == 1.0 else sign * s
        cosines[i] = -quarters * s if odd == 1.0 else sign * c


# All n frequencies, of which `smallest` is the smallest magnitude. Reduction and polynomials are
# loops of their own: fused into one, the chain of dependent operations exceeds the processor's
# out-of-order window (1.55 against 1.25 ns a pair).
cdef void sincos(double *sines, double *cosines, double position, const double *quarter_turns,
                 Py_ssize_t n, double smallest) noexcept nogil:
    # Below 1e-250 the low part of a product may be subnormal, and a fused multiply-add and Dekker's
    # product then differ: every build takes Dekker's there.
    cdef bint fused = HAS_FMA and fabs(position) * smallest > 1e-250
    cdef double quadrant[COLUMNS]
    cdef Py_ssize_t i, count
    for i from 0 <= i < n by COLUMNS:
        count = min(n - i, <Py_ssize_t> COLUMNS)
        if fused:
            reduce(sines + i, cosines + i, quadrant, position, quarter_turns + i, n, count, True)
            sincos_poly(sines + i, cosines + i, quadrant, count, True)
        else:
            reduce(sines + i, cosines + i, quadrant, position, quarter_turns + i, n, count, False)
            sincos_poly(sines + i, cosines + i, quadrant, count, False)


cdef double min_abs(const double *frequencies, Py_ssize_t n) noexcept nogil:
    cdef double smallest = INFINITY
    cdef Py_ssize_t i
    for i in range(n):
        smallest = min(smallest, fabs(frequencies[i]))
    return smallest
