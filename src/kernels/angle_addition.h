/* Rows by angle addition, and out = x * scale + row.
 *
 *   sin(a + b) = sin a cos b + cos a sin b        sin(a - b) = sin a cos b - cos a sin b
 *   cos(a + b) = cos a cos b - sin a sin b        cos(a - b) = cos a cos b + sin a sin b
 *
 * From the planar rows of an anchor (angles a) and of an offset (angles b), each n sines and then n
 * cosines, come the rows of anchor + offset, `plus`, and of anchor - offset, `minus`: four products
 * serve both. An entry is two products and their sum in double, rounded once to the type of the
 * row. Range: any finite values. Error, before that rounding: below 2^-50 for sines and cosines of
 * anchors and offsets that are as exact as `sincos` makes them: docs/numerics.md.
 *
 *   add_angles_float, _double        decide on streaming and on a variant of the loops
 *     can_stream, range_of_vectors     the alignment rule; the columns of full vectors
 *     add_angles_<real>_loop           these, compiled once for each Variant
 *       load_row, add_offset             the anchor's row itself; the identities above
 *       store_values_<real>              interleaved or planar
 *         store_vector_<real>              x * scale + v, prefetch, (non-temporal) store
 *     add_angles_<real>_columns        the prologue before them and the remainder after them
 *   add_row_float, _double           a row that is made, or several, added to x * scale
 *   scale_float, _double; stream_copy; stream_fence
 *
 * The loops over single columns do the same operations in the same order as those over vectors.
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

/* Which rows are written: a copy of the anchor's, `plus`, `minus`, or both of these. */
enum { COPY, PLUS, MINUS, BOTH };

/* What the loops are specialised for: compile-time constants in each case of the switch below. */
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

/* The alignment rule: all non-temporal stores must be aligned to their vectors. They are where the
 * first of each row begins a cache line, to which the prologue leads,
 *   - in interleaved rows, if it is a whole number of pairs away,
 *   - in planar rows, if the cosines begin a whole number of cache lines after the sines,
 *   - in two rows, if both are equally far from one.
 * Other rows are stored through the caches. */
static ALWAYS_INLINE int can_stream(const char *out, const char *other, ptrdiff_t n,
                                    size_t itemsize, int interleaved) {
    size_t before = bytes_to_cache_line(out);
    if (!HAS_STREAM || ((uintptr_t)out ^ (uintptr_t)other) % CACHE_LINE) return 0;
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
    for (int v = 0; v < 2; v++) {
        ptrdiff_t at = i + v * LANES;
        doubles s = values->sines[v], c = values->cosines[v];
        if (variant.interleaved) interleave_doubles(&s, &c);
        store_vector_double(row, variant.interleaved ? 2 * at : at, s, scale, variant);
        store_vector_double(row, variant.interleaved ? 2 * at + LANES : n + at, c, scale, variant);
    }
}

/* A row without angle addition: most often one of the table's, whose next row is prefetched. */
static ALWAYS_INLINE void load_row(Values *values, const double *row, ptrdiff_t n, ptrdiff_t i) {
    for (int v = 0; v < 2; v++) {
        ptrdiff_t at = i + v * LANES;
        values->sines[v] = load_doubles(row + at);
        values->cosines[v] = load_doubles(row + n + at);
        prefetch(row + 2 * n + at);
        prefetch(row + 3 * n + at);
    }
}

static ALWAYS_INLINE void add_offset(Values *plus, Values *minus, const double *anchor,
                                     const double *offset, ptrdiff_t n, ptrdiff_t i) {
    for (int v = 0; v < 2; v++) {
        ptrdiff_t at = i + v * LANES;
        doubles sin_a = load_doubles(anchor + at), cos_a = load_doubles(anchor + n + at);
        doubles sin_b = load_doubles(offset + at), cos_b = load_doubles(offset + n + at);
        doubles sc = mul_doubles(sin_a, cos_b), cs = mul_doubles(cos_a, sin_b);
        doubles cc = mul_doubles(cos_a, cos_b), ss = mul_doubles(sin_a, sin_b);
        plus->sines[v] = add_doubles(sc, cs);
        plus->cosines[v] = sub_doubles(cc, ss);
        minus->sines[v] = sub_doubles(sc, cs);
        minus->cosines[v] = add_doubles(cc, ss);
    }
}

#define VARIANT_NUMBER(which, interleaved, adds, streams)                                          \
    ((((which) * 2 + (interleaved)) * 2 + (adds)) * 2 + (streams))

#define CASE(real, which, interleaved, adds, streams)                                              \
    case VARIANT_NUMBER(which, interleaved, adds, streams): {                                      \
        const Variant variant = {which, interleaved, adds, streams};                               \
        add_angles_##real##_columns(plus, minus, anchor, offset, n, scale, before, variant);       \
        add_angles_##real##_loop(plus, minus, anchor, offset, n, scale, full, variant);            \
        add_angles_##real##_columns(plus, minus, anchor, offset, n, scale, after, variant);        \
        break;                                                                                     \
    }

/* clang-format off */
#define CASES(real, which)                                                                         \
    CASE(real, which, 0, 0, 0) CASE(real, which, 0, 0, 1)                                          \
    CASE(real, which, 0, 1, 0) CASE(real, which, 0, 1, 1)                                          \
    CASE(real, which, 1, 0, 0) CASE(real, which, 1, 0, 1)                                          \
    CASE(real, which, 1, 1, 0) CASE(real, which, 1, 1, 1)
/* clang-format on */

/* Up to 2 * LANES frequencies, one by one. */
#define DEFINE_STORE_COLUMNS(real)                                                                 \
    static ALWAYS_INLINE void store_columns_##real(                                                \
        const RowPointers *row, const double *sines, const double *cosines, ptrdiff_t count,       \
        ptrdiff_t n, ptrdiff_t first, real scale, Variant variant) {                               \
        const real *x = (const real *)row->x;                                                      \
        real *out = (real *)row->out;                                                              \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t i = 0; i < count; i++) {                                                    \
            ptrdiff_t sine = variant.interleaved ? 2 * (first + i) : first + i;                    \
            ptrdiff_t cosine = variant.interleaved ? sine + 1 : n + sine;                          \
            real s = (real)sines[i], c = (real)cosines[i];                                         \
            out[sine] = variant.adds ? x[sine] * scale + s : s;                                    \
            out[cosine] = variant.adds ? x[cosine] * scale + c : c;                                \
        }                                                                                          \
    }
DEFINE_STORE_COLUMNS(float)
DEFINE_STORE_COLUMNS(double)

/* The same as `add_offset`, one by one. Sums and differences go to arrays of their own: as
 * neighbours in one they are a pattern for which GCC 12 takes fused multiply-adds (vfmaddsub), in
 * spite of -ffp-contract=off. */
static ALWAYS_INLINE void add_offset_columns(double *s, double *c, double *t, double *d,
                                             const double *anchor, const double *offset,
                                             ptrdiff_t n, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) {
        double sc = anchor[i] * offset[n + i], cs = anchor[n + i] * offset[i];
        s[i] = sc + cs;
        t[i] = sc - cs;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        double cc = anchor[n + i] * offset[n + i], ss = anchor[i] * offset[i];
        c[i] = cc - ss;
        d[i] = cc + ss;
    }
}

/* add_angles_<real>: `plus` or `minus` may be NULL, and both are to have an x or none. Without an
 * offset (NULL) the row of the anchor goes to `plus`. Rows of this call do not overlap, but out may
 * be x. */
#define DEFINE_ADD_ANGLES(real, reals)                                                             \
    static ALWAYS_INLINE void add_angles_##real##_columns(                                         \
        const RowPointers *upper, const RowPointers *lower, const double *anchor,                  \
        const double *offset, ptrdiff_t n, real scale, Range range, Variant variant) {             \
        const RowPointers plus = *(wants_plus(variant.which) ? upper : lower);                     \
        const RowPointers minus = *(wants_minus(variant.which) ? lower : upper);                   \
        double s[2 * LANES], c[2 * LANES], t[2 * LANES], d[2 * LANES];                             \
        for (ptrdiff_t i = range.first; i < range.end; i += 2 * LANES) {                           \
            ptrdiff_t count = range.end - i < 2 * LANES ? range.end - i : 2 * LANES;               \
            const double *sines = variant.which == COPY ? anchor + i : s;                          \
            const double *cosines = variant.which == COPY ? anchor + n + i : c;                    \
            if (variant.which != COPY)                                                             \
                add_offset_columns(s, c, t, d, anchor + i, offset + i, n, count);                  \
            if (wants_plus(variant.which))                                                         \
                store_columns_##real(&plus, sines, cosines, count, n, i, scale, variant);          \
            if (wants_minus(variant.which))                                                        \
                store_columns_##real(&minus, t, d, count, n, i, scale, variant);                   \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
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
    static void add_angles_##real(const RowPointers *plus, const RowPointers *minus,               \
                                  const double *anchor, const double *offset, ptrdiff_t n,         \
                                  real scale, int interleaved, int stream) {                       \
        const RowPointers *row = plus ? plus : minus;                                              \
        int which = !offset ? COPY : !minus ? PLUS : !plus ? MINUS : BOTH;                         \
        const char *other = which == BOTH ? minus->out : row->out;                                 \
        int streams = stream && can_stream(row->out, other, n, sizeof(real), interleaved);         \
        size_t first = streams ? bytes_to_cache_line(row->out) / sizeof(real) : 0;                 \
        Range full = range_of_vectors(interleaved ? first / 2 : first, n, 2 * LANES);              \
        Range before = {0, full.first}, after = {full.end, n};                                     \
        switch (VARIANT_NUMBER(which, interleaved, row->x != NULL, streams)) {                     \
            CASES(real, COPY) CASES(real, PLUS) CASES(real, MINUS) CASES(real, BOTH)               \
        }                                                                                          \
    }
DEFINE_ADD_ANGLES(float, floats)
DEFINE_ADD_ANGLES(double, doubles)

/* out = x * scale + row for contiguous elements; out may be x, which is then read and written at
 * once and not streamed. `next` will be read after x. */
#define DEFINE_ADD_ROW(real, reals)                                                                \
    static ALWAYS_INLINE void add_row_##real##_range(real *out, const real *x, const real *row,    \
                                                     real scale, Range range) {                    \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = range.first; j < range.end; j++) out[j] = x[j] * scale + row[j];        \
    }                                                                                              \
                                                                                                   \
    static void add_row_##real(real *out, const real *x, const char *next, const real *row,        \
                               real factor, ptrdiff_t count, int stream) {                         \
        const Variant variant = {COPY, 0, 1, 1};                                                   \
        const RowPointers target = {(char *)out, (const char *)x, next};                           \
        ptrdiff_t step = sizeof(reals) / sizeof(real);                                             \
        Range all = {0, count}, full, before, after;                                               \
        reals scale;                                                                               \
        if (!stream || !HAS_STREAM || out == x) {                                                  \
            add_row_##real##_range(out, x, row, factor, all);                                      \
            return;                                                                                \
        }                                                                                          \
        full = range_of_vectors(bytes_to_cache_line(out) / sizeof(real), count, step);             \
        before = (Range){0, full.first};                                                           \
        after = (Range){full.end, count};                                                          \
        scale = set1_##reals(factor);                                                              \
        add_row_##real##_range(out, x, row, factor, before);                                       \
        for (ptrdiff_t j = full.first; j < full.end; j += step)                                    \
            store_vector_##real(&target, j, load_##reals(row + j), scale, variant);                \
        add_row_##real##_range(out, x, row, factor, after);                                        \
    }
DEFINE_ADD_ROW(float, floats)
DEFINE_ADD_ROW(double, doubles)

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
    size_t before = HAS_STREAM ? bytes_to_cache_line(out) : (size_t)size;
    Range range = range_of_vectors(before, size, sizeof(floats));
    memcpy(out, row, (size_t)range.first);
    for (ptrdiff_t j = range.first; j < range.end; j += sizeof(floats)) {
        prefetch(next + j);
        stream_floats((float *)(out + j), load_floats((const float *)(row + j)));
    }
    memcpy(out + range.end, row + range.end, (size_t)(size - range.end));
}

/* Orders non-temporal stores before what another thread is told next. */
static inline void stream_fence(void) { fence(); }
