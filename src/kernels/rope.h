/* Rotary position embedding: pairs of columns rotated by an angle of their own.
 *
 *   (a, b) -> (a cos - b sin, b cos + a sin)
 *
 * Range: any values. Each of the six operations, and sines and cosines, are rounded to the type of
 * the row, so an entry is off by at most 3 u sqrt(a^2 + b^2), to first order in u = 2^-24 or 2^-53.
 * Both columns of a pair are read before either is written: out may be x.
 *
 * Source: J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
 * arXiv:2104.09864, which has the interleaved pairs; those of rotate_half are GPT-NeoX's.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#include "simd.h"

/* rotate_half: columns i and n + i are a pair; rotate_interleaved: columns 2 * i and 2 * i + 1. */
#define DEFINE_ROTATE(real)                                                                        \
    static void rotate_half_##real(real *out, const real *x, const real *sines,                    \
                                   const real *cosines, ptrdiff_t n) {                             \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            real a = x[i], b = x[n + i];                                                           \
            out[i] = a * cosines[i] - b * sines[i];                                                \
            out[n + i] = b * cosines[i] + a * sines[i];                                            \
        }                                                                                          \
    }                                                                                              \
    static void rotate_interleaved_##real(real *out, const real *x, const real *sines,             \
                                          const real *cosines, ptrdiff_t n) {                      \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            real a = x[2 * i], b = x[2 * i + 1];                                                   \
            out[2 * i] = a * cosines[i] - b * sines[i];                                            \
            out[2 * i + 1] = b * cosines[i] + a * sines[i];                                        \
        }                                                                                          \
    }
DEFINE_ROTATE(float)
DEFINE_ROTATE(double)

/* Each value twice, in adjacent columns. Values are copied as bytes, since the same memory is read
 * as floats elsewhere, and by loops of their own for each size, which compilers vectorise. */
static ALWAYS_INLINE void repeat_values_of(size_t itemsize, char *restrict out,
                                           const char *restrict values, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        memcpy(out + 2 * i * itemsize, values + i * itemsize, itemsize);
        memcpy(out + (2 * i + 1) * itemsize, values + i * itemsize, itemsize);
    }
}

static void repeat_interleaved(char *out, const char *values, ptrdiff_t n, size_t itemsize) {
    switch (itemsize) {
    case 2:
        repeat_values_of(2, out, values, n);
        break;
    case 4:
        repeat_values_of(4, out, values, n);
        break;
    case 8:
        repeat_values_of(8, out, values, n);
        break;
    default:
        repeat_values_of(itemsize, out, values, n);
    }
}
