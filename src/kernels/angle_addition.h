/* Rows of sines and cosines by angle addition, and out = x * scale + row: the loops over full
 * vectors.
 *
 *   sin(a + b) = sin a cos b + cos a sin b        sin(a - b) = sin a cos b - cos a sin b
 *   cos(a + b) = cos a cos b - sin a sin b        cos(a - b) = cos a cos b + sin a sin b
 *
 * From the planar rows of an anchor (angles a) and of an offset (angles b), each n sines and then n
 * cosines, come the rows of anchor + offset, `plus`, and of anchor - offset, `minus`: four products
 * serve both. An entry is two products and their sum in double, rounded once to the type of the
 * row. Range: any values. Error, before that rounding: below 2^-50 where both rows are within
 * 2^-52.
 *
 *   add_angles_float, _double        decide on streaming and on a variant of the loop
 *     can_stream, range_of_vectors     the alignment rule; the columns of full vectors
 *     add_angles_<real>_loop           compiled once for each Variant
 *       load_row, add_offset             a row as it stands; the identities above
 *       store_values_<real>              interleaved or planar
 *         store_vector_<real>              x * scale + v, prefetch, (non-temporal) store
 *   stream_add_float, _double        a row that is made, added with non-temporal stores
 *     range_of_vectors, store_vector_<real>
 *   scale_float, _double; stream_copy; stream_fence
 *
 * Those that return a Range did columns first <= i < end. The prologue before them and the
 * remainder after them are scalar loops of the caller, of the same operations in the same order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

/* A row to write, what it is added to (NULL: nothing), and what will be read after that. */
typedef struct {
    char *out;
    const char *x;
    const char *next;
} RowPointers;

typedef struct {
    ptrdiff_t first, end;
} Range;

/* Which rows are written: that of the anchor itself, or of plus, of minus, or of both. */
enum { COPY, PLUS, MINUS, BOTH, ROWS };

/* A copy of the main loop: in each, these are constants. */
typedef struct {
    int which, interleaved, adds, streams;
} Variant;

/* Sines and cosines of 2 * LANES frequencies. */
typedef struct {
    doubles sines[2], cosines[2];
} Values;

static ALWAYS_INLINE int wants_plus(int which) { return which != MINUS; }
static ALWAYS_INLINE int wants_minus(int which) { return which == MINUS || which == BOTH; }

static ALWAYS_INLINE size_t bytes_to_cache_line(const void *address) {
    return -(uintptr_t)address % CACHE_LINE;
}

/* The full vectors, `step` columns each, of columns `first` to `count`. */
static ALWAYS_INLINE Range range_of_vectors(size_t first, ptrdiff_t count, ptrdiff_t step) {
    Range range = {(ptrdiff_t)first < count ? (ptrdiff_t)first : count, count};
    range.end -= (count - range.first) % step;
    return range;
}

/* The alignment rule. A non-temporal store must be aligned to its vector, and so are all of them
 * where each begins a cache line or a whole number of vectors after one. The prologue, as many
 * frequencies as bring `out` to a cache line, does that for
 *   - interleaved rows, if whole pairs bring it there,
 *   - planar rows, if the cosines begin a whole number of cache lines after the sines,
 *   - both of two rows, if they lie alike with regard to cache lines.
 * Other rows are stored through the caches. Vectors that are not full are left to the remainder. */
static ALWAYS_INLINE int can_stream(const char *out, const char *other, ptrdiff_t n,
                                    size_t itemsize, int interleaved) {
    size_t before = bytes_to_cache_line(out);
    if (((uintptr_t)out ^ (uintptr_t)other) % CACHE_LINE) return 0;
    if (interleaved) return before % (2 * itemsize) == 0;
    return before % itemsize == 0 && n * itemsize % CACHE_LINE == 0;
}

/* A vector of a row, from column j on. With non-temporal stores the hardware prefetcher does not
 * see the next row of x, so it is prefetched here. */
#define DEFINE_STORE_VECTOR(real, reals)                                                           \
    static ALWAYS_INLINE void store_vector_##real(const RowPointers *row, ptrdiff_t j, reals v,    \
                                                  reals scale, Variant variant) {                  \
        real *out = (real *)row->out + j;                                                          \
        if (variant.adds) {                                                                        \
            reals x = load_##reals((const real *)row->x + j);                                      \
            if (variant.streams) prefetch((const real *)row->next + j);                            \
            v = add_##reals(mul_##reals(x, scale), v);                                             \
        }                                                                                          \
        if (variant.streams)                                                                       \
            stream_##reals(out, v);                                                                \
        else                                                                                       \
            store_##reals(out, v);                                                                 \
    }
DEFINE_STORE_VECTOR(float, floats)
DEFINE_STORE_VECTOR(double, doubles)

/* The values of frequencies from i on, of n. */
static ALWAYS_INLINE void store_values_float(const RowPointers *row, const Values *values,
                                             ptrdiff_t n, ptrdiff_t i, floats scale,
                                             Variant variant) {
    const doubles *s = values->sines, *c = values->cosines;
    if (variant.interleaved) {
        store_vector_float(row, 2 * i, to_floats_interleaved(s[0], c[0]), scale, variant);
        store_vector_float(row, 2 * i + 2 * LANES, to_floats_interleaved(s[1], c[1]), scale,
                           variant);
    } else {
        store_vector_float(row, i, to_floats(s[0], s[1]), scale, variant);
        store_vector_float(row, n + i, to_floats(c[0], c[1]), scale, variant);
    }
}

static ALWAYS_INLINE void store_values_double(const RowPointers *row, const Values *values,
                                              ptrdiff_t n, ptrdiff_t i, doubles scale,
                                              Variant variant) {
    for (int half = 0; half < 2; half++, i += LANES) {
        doubles s = values->sines[half], c = values->cosines[half];
        if (variant.interleaved) interleave_doubles(&s, &c);
        store_vector_double(row, variant.interleaved ? 2 * i : i, s, scale, variant);
        store_vector_double(row, variant.interleaved ? 2 * i + LANES : n + i, c, scale, variant);
    }
}

/* The row as it stands. It is most often one of the table's, whose next row is prefetched. */
static ALWAYS_INLINE void load_row(Values *values, const double *row, ptrdiff_t n, ptrdiff_t i) {
    for (int half = 0; half < 2; half++, i += LANES) {
        values->sines[half] = load_doubles(row + i);
        values->cosines[half] = load_doubles(row + n + i);
        prefetch(row + 2 * n + i);
        prefetch(row + 3 * n + i);
    }
}

static ALWAYS_INLINE void add_offset(Values *plus, Values *minus, const double *anchor,
                                     const double *offset, ptrdiff_t n, ptrdiff_t i) {
    for (int half = 0; half < 2; half++, i += LANES) {
        doubles sin_a = load_doubles(anchor + i), cos_a = load_doubles(anchor + n + i);
        doubles sin_b = load_doubles(offset + i), cos_b = load_doubles(offset + n + i);
        doubles sc = mul_doubles(sin_a, cos_b), cs = mul_doubles(cos_a, sin_b);
        doubles cc = mul_doubles(cos_a, cos_b), ss = mul_doubles(sin_a, sin_b);
        plus->sines[half] = add_doubles(sc, cs);
        plus->cosines[half] = sub_doubles(cc, ss);
        minus->sines[half] = sub_doubles(sc, cs);
        minus->cosines[half] = add_doubles(cc, ss);
    }
}

#define VARIANT_NUMBER(which, interleaved, adds, streams)                                          \
    ((((which) * 2 + (interleaved)) * 2 + (adds)) * 2 + (streams))

#define CASE(real, which, interleaved, adds, streams)                                              \
    case VARIANT_NUMBER(which, interleaved, adds, streams): {                                      \
        const Variant variant = {which, interleaved, adds, streams};                               \
        add_angles_##real##_loop(plus, minus, anchor, offset, n, scale, range, variant);           \
        break;                                                                                     \
    }

#define CASES(real, which)                                                                         \
    CASE(real, which, 0, 0, 0)                                                                     \
    CASE(real, which, 0, 0, 1) CASE(real, which, 0, 1, 0) CASE(real, which, 0, 1, 1)               \
        CASE(real, which, 1, 0, 0) CASE(real, which, 1, 0, 1) CASE(real, which, 1, 1, 0)           \
            CASE(real, which, 1, 1, 1)

/* add_angles_<real>: `plus` or `minus` may be NULL, and both are to have an x or none. Without an
 * offset (NULL) the row of the anchor goes to `plus`. Rows of this call do not overlap, but out may
 * be x. */
#define DEFINE_ADD_ANGLES(real, reals)                                                             \
    static ALWAYS_INLINE void add_angles_##real##_loop(                                            \
        const RowPointers *upper, const RowPointers *lower, const double *anchor,                  \
        const double *offset, ptrdiff_t n, real factor, Range range, Variant variant) {            \
        const RowPointers plus = *(wants_plus(variant.which) ? upper : lower);                     \
        const RowPointers minus = *(wants_minus(variant.which) ? lower : upper);                   \
        reals scale = set1_##reals(factor);                                                        \
        for (ptrdiff_t i = range.first; i < range.end; i += 2 * LANES) {                           \
            Values at_plus, at_minus;                                                              \
            if (variant.which == COPY)                                                             \
                load_row(&at_plus, anchor, n, i);                                                  \
            else                                                                                   \
                add_offset(&at_plus, &at_minus, anchor, offset, n, i);                             \
            if (wants_plus(variant.which))                                                         \
                store_values_##real(&plus, &at_plus, n, i, scale, variant);                        \
            if (wants_minus(variant.which))                                                        \
                store_values_##real(&minus, &at_minus, n, i, scale, variant);                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static Range add_angles_##real(const RowPointers *plus, const RowPointers *minus,              \
                                   const double *anchor, const double *offset, ptrdiff_t n,        \
                                   real scale, int interleaved, int stream) {                      \
        const RowPointers *row = plus ? plus : minus;                                              \
        int which = !offset ? COPY : !minus ? PLUS : !plus ? MINUS : BOTH;                         \
        const char *other = which == BOTH ? minus->out : row->out;                                 \
        int streams = stream && can_stream(row->out, other, n, sizeof(real), interleaved);         \
        size_t before = streams ? bytes_to_cache_line(row->out) / sizeof(real) : 0;                \
        Range range = range_of_vectors(interleaved ? before / 2 : before, n, 2 * LANES);           \
        switch (VARIANT_NUMBER(which, interleaved, row->x != NULL, streams)) {                     \
            CASES(real, COPY) CASES(real, PLUS) CASES(real, MINUS) CASES(real, BOTH)               \
        }                                                                                          \
        return range;                                                                              \
    }
DEFINE_ADD_ANGLES(float, floats)
DEFINE_ADD_ANGLES(double, doubles)

/* out = x * scale + row with non-temporal stores, for contiguous elements that do not overlap;
 * `next` will be read after x. */
#define DEFINE_STREAM_ADD(real, reals)                                                             \
    static Range stream_add_##real(real *out, const real *x, const char *next, const real *row,    \
                                   real factor, ptrdiff_t count) {                                 \
        const Variant variant = {COPY, 0, 1, 1};                                                   \
        const RowPointers target = {(char *)out, (const char *)x, next};                           \
        ptrdiff_t step = sizeof(reals) / sizeof(real);                                             \
        Range range = range_of_vectors(bytes_to_cache_line(out) / sizeof(real), count, step);      \
        reals scale = set1_##reals(factor);                                                        \
        for (ptrdiff_t j = range.first; j < range.end; j += step)                                  \
            store_vector_##real(&target, j, load_##reals(row + j), scale, variant);                \
        return range;                                                                              \
    }
DEFINE_STREAM_ADD(float, floats)
DEFINE_STREAM_ADD(double, doubles)

/* out = x * scale; out may be x. */
#define DEFINE_SCALE(real)                                                                         \
    static inline void scale_##real(real *out, const real *x, real scale, ptrdiff_t size) {        \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = 0; j < size; j++) out[j] = x[j] * scale;                                \
    }
DEFINE_SCALE(float)
DEFINE_SCALE(double)

/* `size` bytes of a row with non-temporal stores; `next` will be read as the row was made. */
static void stream_copy(char *out, const char *row, const char *next, ptrdiff_t size) {
    Range range = range_of_vectors(bytes_to_cache_line(out), size, sizeof(floats));
    memcpy(out, row, (size_t)range.first);
    for (ptrdiff_t j = range.first; j < range.end; j += sizeof(floats)) {
        prefetch(next + j);
        stream_floats((float *)(out + j), load_floats((const float *)(row + j)));
    }
    memcpy(out + range.end, row + range.end, (size_t)(size - range.end));
}

/* Orders non-temporal stores before what another thread is told next. */
static inline void stream_fence(void) { fence(); }
