/* Rotary position embedding: pairs of columns rotated by an angle of their own.
 *
 *   (a, b) -> (a cos - b sin, b cos + a sin)
 *
 * Each of the six operations is rounded to the type of the row, so an entry is off by at most 3/2
 * ulp of |a| + |b|. Both columns of a pair are read before either is written: out may be x. Source:
 * J. Su et al., "RoFormer: enhanced transformer with rotary position embedding", arXiv:2104.09864;
 * the halves of a row as pairs are those of GPT-NeoX, neighbours those of the paper.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

/* Each value twice, in adjacent columns; values are copied as bits. */
#define DEFINE_REPEAT_INTERLEAVED(bits)                                                            \
    static void repeat_interleaved_##bits(uint##bits##_t *restrict out,                            \
                                          const uint##bits##_t *restrict values, ptrdiff_t n) {    \
        for (ptrdiff_t i = 0; i < n; i++) out[2 * i] = out[2 * i + 1] = values[i];                 \
    }
DEFINE_REPEAT_INTERLEAVED(16)
DEFINE_REPEAT_INTERLEAVED(32)
DEFINE_REPEAT_INTERLEAVED(64)
