/* 16-bit formats, float16 and bfloat16, which not every C compiler has: one row each of FORMATS.
 *
 * A format is its number of binary digits, its least normal number, from_<format>, exactly to
 * float, and to_<format>, from float with one rounding to nearest, ties to even (IEEE 754). Both
 * are without branches, so that every build vectorises them. NaN stays NaN, and becomes quiet.
 *
 * To add a format, write these two functions and its lines after DEFINE_FORMAT and in FORMATS.
 */
#pragma once

#include <Python.h>
#include <numpy/ndarraytypes.h>
#include <stdint.h>
#include <string.h>

#include "rope.h"
#include "simd.h"

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

static inline float from_bfloat16(uint16_t value) { return float_of((uint32_t)value << 16); }

/* Round to nearest even by adding 0x7fff + the last bit that stays, whose carry is the rounding.
 * The carry of a NaN could reach the exponent, but not that of a NaN here, whose last 16 bits are
 * 0: it comes from x, from the row or from the scale, and theirs are. */
static inline uint16_t to_bfloat16(float value) {
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A subnormal is its 10 bits times 2^-24; others have another bias of the exponent, but infinity
 * and NaN the largest. Magnitudes are int32_t, which SSE2 compares. */
static inline float from_float16(uint16_t value) {
    int32_t magnitude = value & 0x7fff;
    int32_t bias = magnitude < 0x7c00 ? 0x38000000 : 0x70000000;
    uint32_t normal = (uint32_t)((magnitude << 13) + bias);
    uint32_t subnormal = bits_of((float)magnitude * 0x1p-24f);
    return float_of((magnitude < 0x400 ? subnormal : normal) | (uint32_t)(value & 0x8000) << 16);
}

/* Normal results, from 2^-14: round to nearest even by adding 0xfff + the last bit that stays
 * before the shift. 2^16 and above overflow to infinity. Subnormal results: the sum with 1/2 rounds
 * to a multiple of 2^-24. */
static inline uint16_t to_float16(float value) {
    uint32_t bits = bits_of(value);
    int32_t magnitude = (int32_t)(bits & 0x7fffffff);
    int32_t finite = magnitude < 0x47800000 ? magnitude : 0x47800000;
    int32_t normal = (finite - 0x38000000 + 0xfff + (finite >> 13 & 1)) >> 13;
    int32_t subnormal = (int32_t)bits_of(float_of((uint32_t)magnitude) + 0.5f) - 0x3f000000;
    int32_t nan = magnitude > 0x7f800000 ? 0x200 | (magnitude >> 13 & 0x3ff) : 0;
    return (uint16_t)((uint32_t)((magnitude < 0x38800000 ? subnormal : normal) | nan)
                      | (bits >> 16 & 0x8000));
}

/* Rounds a double to nearest even, as in a format whose significand has `digits` bits and whose
 * subnormals are below `least_normal`. The sum with round_bias, 1.5 * 2^52 units in the last place
 * of the result, has just the digits that stay, and the subtraction is exact. Range: any value;
 * from 2^200 on, which is infinity in every format, there is no rounding, as the bias must not
 * overflow. */
static inline double round_to_digits(double value, int digits, double least_normal) {
    const uint64_t exponent = (uint64_t)0x7ff << 52, sign = (uint64_t)1 << 63;
    uint64_t bits, power_bits, rounded_bits;
    double power, round_bias, rounded;
    memcpy(&bits, &value, sizeof(bits));
    power_bits = bits & exponent;
    memcpy(&power, &power_bits, sizeof(power));
    power = power < 0x1p200 ? power : 0x1p200;
    round_bias = (power > least_normal ? power : least_normal) * 1.5
                 * (double)((uint64_t)1 << (53 - digits));
    rounded = (value + round_bias) - round_bias;
    memcpy(&rounded_bits, &rounded, sizeof(rounded_bits));
    rounded_bits |= bits & sign; /* of what is rounded to 0 */
    memcpy(&rounded, &rounded_bits, sizeof(rounded));
    return rounded;
}

/* What kernels do with a format. Values are `itemsize` bytes each; out may be x.
 *
 *   round    from a row in double, rounded once
 *   add      x * scale + row, each operation in float, the result rounded once more
 *   scale    x * scale, likewise
 *   widen    to float, exactly
 *   rotate   rows of rope.h, each operation in float, the results rounded once more
 */
typedef struct {
    void (*round)(void *out, const double *row, ptrdiff_t size);
    void (*add)(void *out, const void *x, const float *row, float scale, ptrdiff_t size);
    void (*scale)(void *out, const void *x, float scale, ptrdiff_t size);
    void (*widen)(float *out, const void *row, ptrdiff_t size);
    void (*rotate)(const Rotation *rows);
    size_t itemsize;
    int numpy_type; /* of the arrays that hold it: a format that NumPy does not know is its bits */
} Format;

/* Most columns of a chunk of a row that is widened to be rotated. */
enum { CHUNK = 128 };

/* These for a format whose values are stored as `bits`. round: after round_to_digits the conversion
 * to float is exact, and to_<format> too. */
#define DEFINE_FORMAT(format, bits, digits, least_normal)                                          \
    static void round_##format(void *out, const double *restrict row, ptrdiff_t size) {            \
        bits *restrict to = out;                                                                   \
        for (ptrdiff_t j = 0; j < size; j++)                                                       \
            to[j] = to_##format((float)round_to_digits(row[j], digits, least_normal));             \
    }                                                                                              \
    static void add_##format(void *out, const void *x, const float *row, float scale,              \
                             ptrdiff_t size) {                                                     \
        bits *to = out;                                                                            \
        const bits *from = x;                                                                      \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = 0; j < size; j++)                                                       \
            to[j] = to_##format(from_##format(from[j]) * scale + row[j]);                          \
    }                                                                                              \
    static void scale_##format(void *out, const void *x, float scale, ptrdiff_t size) {            \
        bits *to = out;                                                                            \
        const bits *from = x;                                                                      \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = 0; j < size; j++) to[j] = to_##format(from_##format(from[j]) * scale);  \
    }                                                                                              \
    static void widen_##format(float *restrict out, const void *row, ptrdiff_t size) {             \
        const bits *restrict from = row;                                                           \
        for (ptrdiff_t j = 0; j < size; j++) out[j] = from_##format(from[j]);                      \
    }

#define DEFINE_ROTATE_WIDENED(format, bits)                                                        \
    static void narrow_##format(bits *restrict out, const float *restrict row, ptrdiff_t size) {   \
        for (ptrdiff_t j = 0; j < size; j++) out[j] = to_##format(row[j]);                         \
    }                                                                                              \
    static void rotate_half_##format(bits *out, const bits *x, const float *sines,                 \
                                     const float *cosines, ptrdiff_t n) {                          \
        float row[CHUNK];                                                                          \
        for (ptrdiff_t i = 0, count; i < n; i += count) {                                          \
            count = n - i < CHUNK / 2 ? n - i : CHUNK / 2;                                         \
            widen_##format(row, x + i, count);                                                     \
            widen_##format(row + count, x + n + i, count);                                         \
            rotate_half_float(row, row, sines + i, cosines + i, count);                            \
            narrow_##format(out + i, row, count);                                                  \
            narrow_##format(out + n + i, row + count, count);                                      \
        }                                                                                          \
    }                                                                                              \
    static void rotate_interleaved_##format(bits *out, const bits *x, const float *sines,          \
                                            const float *cosines, ptrdiff_t n) {                   \
        float row[CHUNK];                                                                          \
        for (ptrdiff_t i = 0, count; i < n; i += count) {                                          \
            count = n - i < CHUNK / 2 ? n - i : CHUNK / 2;                                         \
            widen_##format(row, x + 2 * i, 2 * count);                                             \
            rotate_interleaved_float(row, row, sines + i, cosines + i, count);                     \
            narrow_##format(out + 2 * i, row, 2 * count);                                          \
        }                                                                                          \
    }                                                                                              \
    DEFINE_ROTATE(format, bits, float)
DEFINE_FORMAT(float16, uint16_t, 11, 0x1p-14)
DEFINE_FORMAT(bfloat16, uint16_t, 8, 0x1p-126)

/* Processors with instructions for a format give the same bits: full vectors, and then the
 * remainder as above. */
#define DEFINE_VECTORS(format, bits)                                                               \
    static void add_##format##_vectors(void *out, const void *x, const float *row, float scale,    \
                                       ptrdiff_t size) {                                           \
        bits *to = out;                                                                            \
        const bits *from = x;                                                                      \
        ptrdiff_t j = 0;                                                                           \
        for (; j + VECTOR_SIZE <= size; j += VECTOR_SIZE) {                                        \
            floats v = mul_floats(load_##format(from + j), set1_floats(scale));                    \
            store_##format(to + j, add_floats(v, load_floats(row + j)));                           \
        }                                                                                          \
        add_##format(to + j, from + j, row + j, scale, size - j);                                  \
    }                                                                                              \
    static void scale_##format##_vectors(void *out, const void *x, float scale, ptrdiff_t size) {  \
        bits *to = out;                                                                            \
        const bits *from = x;                                                                      \
        ptrdiff_t j = 0;                                                                           \
        for (; j + VECTOR_SIZE <= size; j += VECTOR_SIZE)                                          \
            store_##format(to + j, mul_floats(load_##format(from + j), set1_floats(scale)));       \
        scale_##format(to + j, from + j, scale, size - j);                                         \
    }                                                                                              \
    static void widen_##format##_vectors(float *out, const void *row, ptrdiff_t size) {            \
        const bits *from = row;                                                                    \
        ptrdiff_t j = 0;                                                                           \
        for (; j + VECTOR_SIZE <= size; j += VECTOR_SIZE)                                          \
            store_floats(out + j, load_##format(from + j));                                        \
        widen_##format(out + j, from + j, size - j);                                               \
    }                                                                                              \
    DEFINE_ROTATE_HALF(format, bits, float, floats, load_##format, store_##format, from_##format,  \
                       to_##format)                                                                \
    DEFINE_ROTATE_INTERLEAVED(format, bits, load_##format, store_##format, from_##format,          \
                              to_##format)                                                         \
    DEFINE_ROTATE(format, bits, float)

#define PLAIN_ROW(format, bits, numpy_type)                                                        \
    {round_##format,  add_##format, scale_##format, widen_##format,                                \
     rotate_##format, sizeof(bits), numpy_type}
#define VECTORS_ROW(format, bits, numpy_type)                                                      \
    {round_##format,                                                                               \
     add_##format##_vectors,                                                                       \
     scale_##format##_vectors,                                                                     \
     widen_##format##_vectors,                                                                     \
     rotate_##format,                                                                              \
     sizeof(bits),                                                                                 \
     numpy_type}

enum { VECTOR_SIZE = 2 * LANES };
#if defined(load_float16)
DEFINE_VECTORS(float16, uint16_t)
#define FLOAT16_ROW VECTORS_ROW(float16, uint16_t, NPY_HALF)
#else
DEFINE_ROTATE_WIDENED(float16, uint16_t)
#define FLOAT16_ROW PLAIN_ROW(float16, uint16_t, NPY_HALF)
#endif
#if defined(load_bfloat16)
DEFINE_VECTORS(bfloat16, uint16_t)
#define BFLOAT16_ROW VECTORS_ROW(bfloat16, uint16_t, NPY_UINT16)
#else
DEFINE_ROTATE_WIDENED(bfloat16, uint16_t)
#define BFLOAT16_ROW PLAIN_ROW(bfloat16, uint16_t, NPY_UINT16)
#endif

static const Format FORMATS[] = {FLOAT16_ROW, BFLOAT16_ROW};
enum { FORMAT_COUNT = sizeof(FORMATS) / sizeof(FORMATS[0]) };
