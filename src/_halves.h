/* float16 and bfloat16, which no C has everywhere: to float exactly, and back with one rounding.
 *
 * Without branches, so that every build has them in its vectors. NaN stays NaN, and becomes quiet.
 */
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float from_bfloat16(uint16_t half) { return float_of((uint32_t)half << 16); }

/* To nearest, ties to even: an addition whose carry is the rounding. None comes from a NaN, whose
 * last 16 bits are 0 here: those of x and of what is added are, and that of the scale is. */
static inline uint16_t to_bfloat16(float value) {
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A subnormal is its 10 bits times 2^-24; others have another bias of the exponent, but infinity
 * and NaN the largest. Sizes are int32_t, which the baseline's vectors compare. */
static inline float from_float16(uint16_t half) {
    int32_t size = half & 0x7fff;
    uint32_t bits = (uint32_t)((size << 13) + (size < 0x7c00 ? 0x38000000 : 0x70000000));
    uint32_t small = bits_of((float)size * 5.9604644775390625e-8f);
    return float_of((size < 0x400 ? small : bits) | (uint32_t)(half & 0x8000) << 16);
}

/* Below 2^-14 the sum with 1/2 rounds to a multiple of 2^-24, above an addition's carry does; from
 * 2^16 on, where the carry cannot know, it is infinity. */
static inline uint16_t to_float16(float value) {
    uint32_t bits = bits_of(value);
    int32_t size = (int32_t)(bits & 0x7fffffff);
    int32_t finite = size < 0x47800000 ? size : 0x47800000;
    int32_t normal = (finite - 0x38000000 + 0xfff + (finite >> 13 & 1)) >> 13;
    int32_t small = (int32_t)bits_of(float_of((uint32_t)size) + 0.5f) - 0x3f000000;
    int32_t quiet = size > 0x7f800000 ? 0x200 | (size >> 13 & 0x3ff) : 0;
    return (uint16_t)((uint32_t)((size < 0x38800000 ? small : normal) | quiet)
                      | (bits >> 16 & 0x8000));
}

/* A double rounded to `digits` binary digits, below `least` to as many places as there: the sum
 * with 1.5 * 2^52 units of the last place has just these, ties to even. */
static inline double rounded_to(double value, int digits, double least) {
    const uint64_t exponent = (uint64_t)0x7ff << 52, sign = (uint64_t)1 << 63;
    uint64_t bits, power_bits, rounded_bits;
    double power, magnet, rounded;
    memcpy(&bits, &value, sizeof(bits));
    power_bits = bits & exponent;
    memcpy(&power, &power_bits, sizeof(power));
    power = power < 1.6069380442589903e60 ? power : 1.6069380442589903e60; /* 2^200: beyond is infinity */
    magnet = (power > least ? power : least) * 1.5 * (double)((uint64_t)1 << (53 - digits));
    rounded = (value + magnet) - magnet;
    memcpy(&rounded_bits, &rounded, sizeof(rounded_bits));
    rounded_bits |= bits & sign; /* of what is rounded to 0 */
    memcpy(&rounded, &rounded_bits, sizeof(rounded));
    return rounded;
}

/* Processors with AVX2 convert float16 themselves, to the same bits: as many as fill whole vectors. */
#if defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
#if defined(__AVX512F__)
#define WIDE_HALVES 16
#define WIDEN(from) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from)))
#define NARROW(to, v)                                                                              \
    _mm256_storeu_si256((__m256i *)(to), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#else
#define WIDE_HALVES 8
#define WIDEN(from) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from)))
#define NARROW(to, v)                                                                              \
    _mm_storeu_si128((__m128i *)(to), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#endif
static ptrdiff_t scale_and_add_wide(uint16_t *out, const uint16_t *x, const float *row, float scale,
                                    ptrdiff_t size) {
    floats factor = VECTOR(set1_ps)(scale);
    ptrdiff_t j = 0;
    for (; j + WIDE_HALVES <= size; j += WIDE_HALVES) {
        floats v = VECTOR(mul_ps)(WIDEN(x + j), factor);
        if (row) v = VECTOR(add_ps)(v, VECTOR(loadu_ps)(row + j));
        NARROW(out + j, v);
    }
    return j;
}
static ptrdiff_t widen_wide(float *out, const uint16_t *row, ptrdiff_t size) {
    ptrdiff_t j = 0;
    for (; j + WIDE_HALVES <= size; j += WIDE_HALVES) VECTOR(storeu_ps)(out + j, WIDEN(row + j));
    return j;
}
static ptrdiff_t narrow_wide(uint16_t *out, const float *row, ptrdiff_t size) {
    ptrdiff_t j = 0;
    for (; j + WIDE_HALVES <= size; j += WIDE_HALVES)
        NARROW(out + j, VECTOR(loadu_ps)(row + j));
    return j;
}
#define scale_and_add_wide_float16 scale_and_add_wide
#define widen_wide_float16 widen_wide
#define narrow_wide_float16 narrow_wide
#else
#define scale_and_add_wide_float16(out, x, row, scale, size) 0
#define widen_wide_float16(out, row, size) 0
#define narrow_wide_float16(out, row, size) 0
#endif
#define scale_and_add_wide_bfloat16(out, x, row, scale, size) 0
#define widen_wide_bfloat16(out, row, size) 0
#define narrow_wide_bfloat16(out, row, size) 0

/* Rows in double to halves: what was rounded before is exact in float, and in what follows. Sums
 * x * scale + row, and products, in float; out may be x. And halves to float and back. */
#define DEFINE_HALVES(format, digits, least)                                                       \
    static void round_##format(uint16_t *restrict out, const double *restrict row,                 \
                               ptrdiff_t size) {                                                   \
        for (ptrdiff_t j = 0; j < size; j++)                                                       \
            out[j] = to_##format((float)rounded_to(row[j], digits, least));                        \
    }                                                                                              \
    static void add_##format(uint16_t *out, const uint16_t *x, const float *row, float scale,      \
                             ptrdiff_t size) {                                                     \
        ptrdiff_t done = scale_and_add_wide_##format(out, x, row, scale, size);                    \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = done; j < size; j++)                                                    \
            out[j] = to_##format(from_##format(x[j]) * scale + row[j]);                            \
    }                                                                                              \
    static void scale_##format(uint16_t *out, const uint16_t *x, float scale, ptrdiff_t size) {    \
        ptrdiff_t done = scale_and_add_wide_##format(out, x, (const float *)0, scale, size);       \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = done; j < size; j++)                                                    \
            out[j] = to_##format(from_##format(x[j]) * scale);                                     \
    }                                                                                              \
    static void widen_##format(float *restrict out, const uint16_t *restrict row,                  \
                               ptrdiff_t size) {                                                   \
        for (ptrdiff_t j = widen_wide_##format(out, row, size); j < size; j++)                     \
            out[j] = from_##format(row[j]);                                                        \
    }                                                                                              \
    static void narrow_##format(uint16_t *restrict out, const float *restrict row,                 \
                                ptrdiff_t size) {                                                  \
        for (ptrdiff_t j = narrow_wide_##format(out, row, size); j < size; j++)                    \
            out[j] = to_##format(row[j]);                                                          \
    }
DEFINE_HALVES(float16, 11, 6.103515625e-05)         /* 2^-14 */
DEFINE_HALVES(bfloat16, 8, 1.1754943508222875e-38) /* 2^-126 */
