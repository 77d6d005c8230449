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

/* Rows to rotate, all by the same number of pairs. Steps are in bytes. */
typedef struct {
    char *out;
    const char *x;
    const char *angles; /* n sines and then n cosines: floats, or doubles for doubles */
    ptrdiff_t out_step, x_step, angles_step;
    ptrdiff_t count; /* of rows */
    ptrdiff_t n;     /* pairs of a row */
    size_t rest;     /* bytes after these, which are copied */
    size_t ahead;    /* bytes from x to what is prefetched; 0: the processor sees what is next */
    int interleaved; /* pairs are columns 2 * i and 2 * i + 1, or else i and n + i */
} Rotation;

/* Rotates a row in vectors, or one by one if it is shorter than a vector. `load` and `from` widen
 * entries to `real`; `store` and `to` round them back. The last vector overlaps the one before it
 * where the row is no whole number of vectors; it is loaded first, as out may be x. */
#define DEFINE_ROTATE_HALF(name, entry, real, reals, load, store, from, to)                        \
    static ALWAYS_INLINE void rotate_halves_##name(                                                \
        entry *out, reals a, reals b, const real *sines, const real *cosines, ptrdiff_t n) {       \
        reals s = load_##reals(sines), c = load_##reals(cosines);                                  \
        store(out, sub_##reals(mul_##reals(a, c), mul_##reals(b, s)));                             \
        store(out + n, add_##reals(mul_##reals(b, c), mul_##reals(a, s)));                         \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void rotate_half_##name(entry *out, const entry *x, const real *sines,    \
                                                 const real *cosines, ptrdiff_t n) {               \
        const ptrdiff_t step = sizeof(reals) / sizeof(real), last = n - step;                      \
        reals a, b;                                                                                \
        if (last < 0) {                                                                            \
            NO_DEPENDENCE                                                                          \
            for (ptrdiff_t i = 0; i < n; i++) {                                                    \
                real first = from(x[i]), second = from(x[n + i]);                                  \
                out[i] = to(first * cosines[i] - second * sines[i]);                               \
                out[n + i] = to(second * cosines[i] + first * sines[i]);                           \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        a = load(x + last);                                                                        \
        b = load(x + n + last);                                                                    \
        for (ptrdiff_t i = 0; i < last; i += step)                                                 \
            rotate_halves_##name(out + i, load(x + i), load(x + n + i), sines + i, cosines + i,    \
                                 n);                                                               \
        rotate_halves_##name(out + last, a, b, sines + last, cosines + last, n);                   \
    }

#define DEFINE_ROTATE_PAIRS(layout, name, entry, real, from, to)                                   \
    static ALWAYS_INLINE void rotate_##layout##_##name(                                            \
        entry *out, const entry *x, const real *sines, const real *cosines, ptrdiff_t n) {         \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            real first = from(x[2 * i]), second = from(x[2 * i + 1]);                              \
            out[2 * i] = to(first * cosines[i] - second * sines[i]);                               \
            out[2 * i + 1] = to(second * cosines[i] + first * sines[i]);                           \
        }                                                                                          \
    }

#if defined(load_floats_twice)
#define DEFINE_ROTATE_INTERLEAVED(name, entry, load, store, from, to)                              \
    DEFINE_ROTATE_PAIRS(pairs, name, entry, float, from, to)                                       \
                                                                                                   \
    static ALWAYS_INLINE void rotate_adjacent_##name(entry *out, floats v, const float *sines,     \
                                                     const float *cosines) {                       \
        floats s = load_floats_twice(sines), c = load_floats_twice(cosines);                       \
        store(out, sub_add_floats(mul_floats(v, c), mul_floats(swap_floats(v), s)));               \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void rotate_interleaved_##name(                                           \
        entry *out, const entry *x, const float *sines, const float *cosines, ptrdiff_t n) {       \
        const ptrdiff_t last = n - LANES;                                                          \
        floats v;                                                                                  \
        if (last < 0) {                                                                            \
            rotate_pairs_##name(out, x, sines, cosines, n);                                        \
            return;                                                                                \
        }                                                                                          \
        v = load(x + 2 * last);                                                                    \
        for (ptrdiff_t i = 0; i < last; i += LANES)                                                \
            rotate_adjacent_##name(out + 2 * i, load(x + 2 * i), sines + i, cosines + i);          \
        rotate_adjacent_##name(out + 2 * last, v, sines + last, cosines + last);                   \
    }
#else
#define DEFINE_ROTATE_INTERLEAVED(name, entry, load, store, from, to)                              \
    DEFINE_ROTATE_PAIRS(interleaved, name, entry, float, from, to)
#endif

#define DEFINE_ROTATE(name, entry, real)                                                           \
    static ALWAYS_INLINE void rotate_rows_##name(const Rotation *rows, int interleaved) {          \
        const size_t size = 2 * (size_t)rows->n * sizeof(entry), rest = rows->rest;                \
        const size_t ahead = rows->ahead;                                                          \
        const ptrdiff_t n = rows->n;                                                               \
        const char *x = rows->x, *angles = rows->angles;                                           \
        char *out = rows->out;                                                                     \
        for (ptrdiff_t row = 0; row < rows->count; row++) {                                        \
            const real *sines = (const real *)angles, *cosines = sines + n;                        \
            for (size_t j = 0; ahead && j < size + rest; j += CACHE_LINE) prefetch(x + ahead + j); \
            if (interleaved)                                                                       \
                rotate_interleaved_##name((entry *)out, (const entry *)x, sines, cosines, n);      \
            else                                                                                   \
                rotate_half_##name((entry *)out, (const entry *)x, sines, cosines, n);             \
            if (rest && out != x) memcpy(out + size, x + size, rest);                              \
            out += rows->out_step;                                                                 \
            x += rows->x_step;                                                                     \
            angles += rows->angles_step;                                                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void rotate_##name(const Rotation *rows) {                                              \
        if (rows->interleaved)                                                                     \
            rotate_rows_##name(rows, 1);                                                           \
        else                                                                                       \
            rotate_rows_##name(rows, 0);                                                           \
    }

#define as_it_is(value) (value)
DEFINE_ROTATE_HALF(float, float, float, floats, load_floats, store_floats, as_it_is, as_it_is)
DEFINE_ROTATE_INTERLEAVED(float, float, load_floats, store_floats, as_it_is, as_it_is)
DEFINE_ROTATE_HALF(double, double, double, doubles, load_doubles, store_doubles, as_it_is, as_it_is)
DEFINE_ROTATE_PAIRS(interleaved, double, double, double, as_it_is, as_it_is)
DEFINE_ROTATE(float, float, float)
DEFINE_ROTATE(double, double, double)

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
