/* Rows by angle addition, stored or added to x * scale.
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
 *   add_angles_float, _double        the rows of a run: which are copies, pairs or single ones
 *     add_angles_<real>_rows           some of them, by a loop that is compiled for each Variant
 *       add_angles_<real>_row            one or two of them, with ordinary stores
 *       stream_<real>_segment            the same with non-temporal stores
 *         add_angles_<real>_loop           STEP columns at a time, in vectors
 *           load_row, add_offset             the anchor's row itself; the identities above
 *           vectors_<real>                   interleaved or planar
 *           add_vector_<real>                x * scale + v, prefetch
 *           store_vector_<real>              (non-temporal) store
 *         add_angles_<real>_columns        fewer columns than a vector has
 *     stream_shared_lines              the cache lines that two segments share
 *   scale_float, _double
 *
 * The loops over single columns do the same operations in the same order as those over vectors.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"
#include "stretch.h"

/* Rows of consecutive positions over one anchor: row k, for low <= k <= high, is that of anchor +
 * k. Strides in bytes. */
typedef struct {
    char *out; /* row `low` */
    ptrdiff_t stride;
    const char *x;      /* what the first row is added to; NULL: nothing */
    const int64_t *ids; /* the r-th row is added to row ids[r] of x; NULL: to row r */
    ptrdiff_t x_stride;
    const char *next; /* what will be read after x */
    ptrdiff_t low, high;
    int streams; /* by non-temporal stores: rows for which can_stream */
} Rows;

/* A row to write, or a half of it, what it is added to, and what will be read after that. */
typedef struct {
    char *out;
    const char *x;
    const char *next;
    char *shared_line; /* the cache line that its first column shares, in scratch; NULL: none */
} RowPointers;

typedef struct {
    ptrdiff_t first, end;
} Range;

/* Which rows are written: a copy of the anchor's, `plus`, `minus`, or both of these. */
enum { COPY, PLUS, MINUS, BOTH };

/* Which columns: interleaved pairs; in planar rows sines and cosines, or one half of the row. */
enum { PAIRS, HALVES, SINES, COSINES };

/* What the loops are specialised for: compile-time constants in each case of the switch below. */
typedef struct {
    int which, part, adds, streams, prefetches;
} Variant;

/* Sines and cosines of 2 * LANES frequencies. */
typedef struct {
    doubles sines[2], cosines[2];
} Values;

enum {
    STEP = 2 * LANES, /* frequencies of a loop's iteration */
    /* Twice ANCHOR_SPACING of _plan.py: the anchor 0 has positions -63 to 63. */
    MAX_ROWS = 128,
    /* Bytes of a row, or of half a planar one, from which its ends cost less than a copy, and from
     * which to call a loop for it does, if it is whole lines. */
    MIN_SEGMENT = 2048,
    MIN_LINES = 512
};

static ALWAYS_INLINE int wants_plus(int which) { return which != MINUS; }
static ALWAYS_INLINE int wants_minus(int which) { return which == MINUS || which == BOTH; }

/* Bytes of a column; a column of interleaved rows is a pair, a sine and a cosine. */
static ALWAYS_INLINE size_t column_size(int part, size_t itemsize) {
    return part == PAIRS ? 2 * itemsize : itemsize;
}

/* Columns of a piece at a row's ends: whole vectors, of a cache line or more. */
static ALWAYS_INLINE ptrdiff_t columns_aside(int part, size_t itemsize) {
    ptrdiff_t line = CACHE_LINE / (ptrdiff_t)column_size(part, itemsize);
    return line < STEP ? STEP : line;
}

/* Whether rows can be stored with non-temporal stores as they are made: no column, a pair or half a
 * pair, lies across the end of a cache line, and there are enough of them: fewer if no ends are.
 * `strides` are all of the output, one or another: the row may be any. */
static inline int can_stream(const char *out, size_t strides, ptrdiff_t n, size_t itemsize,
                             int interleaved) {
    ptrdiff_t column = interleaved ? 2 * itemsize : itemsize, size = n * column;
    size_t addresses = (uintptr_t)out | strides;
    int has_no_ends = (addresses | (size_t)size) % CACHE_LINE == 0;
    return HAS_STREAM && addresses % column == 0 && size >= (has_no_ends ? MIN_LINES : MIN_SEGMENT);
}

/* A vector of a row, from column j on: v, or what it is added to and v. With non-temporal stores
 * the hardware prefetcher does not see the next row of x, so it is prefetched here. */
#define DEFINE_ADD_VECTOR(real, reals)                                                             \
    static ALWAYS_INLINE reals add_vector_##real(const RowPointers *row, ptrdiff_t j, reals v,     \
                                                 reals scale, Variant variant) {                   \
        if (!variant.adds) return v;                                                               \
        if (variant.prefetches) prefetch((const real *)row->next + j);                             \
        return add_##reals(mul_##reals(load_##reals((const real *)row->x + j), scale), v);         \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void store_vector_##real(const RowPointers *row, ptrdiff_t j, reals v,    \
                                                  Variant variant) {                               \
        if (variant.streams)                                                                       \
            stream_##reals((real *)row->out + j, v);                                               \
        else                                                                                       \
            store_##reals((real *)row->out + j, v);                                                \
    }
DEFINE_ADD_VECTOR(float, floats)
DEFINE_ADD_VECTOR(double, doubles)

/* The first column of vector v of a row, for frequencies from i on, of n. */
static ALWAYS_INLINE ptrdiff_t column_of(int v, ptrdiff_t width, ptrdiff_t n, ptrdiff_t i,
                                         Variant variant) {
    if (variant.part == PAIRS) return 2 * i + v * width;
    if (variant.part != HALVES) return i + v * width;
    return (v * width < STEP ? 0 : n - STEP) + i + v * width;
}

/* How many vectors of so many columns a row has for STEP frequencies. */
static ALWAYS_INLINE int vectors_of(ptrdiff_t width, Variant variant) {
    return (int)((variant.part == PAIRS || variant.part == HALVES ? 2 : 1) * STEP / width);
}

/* The vectors of a row for STEP frequencies, in the order of `column_of`. */
static ALWAYS_INLINE void vectors_float(floats *made, const Values *values, Variant variant) {
    const doubles *s = values->sines, *c = values->cosines;
    if (variant.part == PAIRS) {
        made[0] = to_floats_interleaved(s[0], c[0]);
        made[1] = to_floats_interleaved(s[1], c[1]);
    } else {
        made[0] = variant.part == COSINES ? to_floats(c[0], c[1]) : to_floats(s[0], s[1]);
        made[1] = to_floats(c[0], c[1]);
    }
}

static ALWAYS_INLINE void vectors_double(doubles *made, const Values *values, Variant variant) {
    for (int v = 0; v < 2; v++) {
        doubles s = values->sines[v], c = values->cosines[v];
        if (variant.part == PAIRS) {
            interleave_doubles(&s, &c);
            made[2 * v] = s;
            made[2 * v + 1] = c;
        } else {
            made[v] = variant.part == COSINES ? c : s;
            made[v + 2] = c;
        }
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

/* Row k. What it reads next is in the row after it, outwards from the anchor. The second half of a
 * row begins `skipped` bytes later. */
static ALWAYS_INLINE RowPointers row_at(const Rows *rows, ptrdiff_t k, ptrdiff_t outwards,
                                        Variant variant, size_t skipped, char *shared_lines) {
    ptrdiff_t row = k - rows->low, after = row + outwards;
    ptrdiff_t segment = variant.part == PAIRS ? row : 2 * row + (variant.part == COSINES);
    RowPointers at = {rows->out + row * rows->stride + skipped, NULL, rows->next, NULL};
    if (shared_lines) at.shared_line = shared_lines + segment * CACHE_LINE;
    if (variant.adds) {
        at.x = rows->x + (rows->ids ? rows->ids[row] : row) * rows->x_stride + skipped;
        if (variant.streams && 0 <= after && after <= rows->high - rows->low)
            at.next = rows->x + (rows->ids ? rows->ids[after] : after) * rows->x_stride;
        if (variant.streams) at.next += skipped;
    }
    return at;
}

/* The cache lines that segments of contiguous rows share, the last columns of one and the first of
 * the next, were gathered in scratch, as each needs one non-temporal store. The first and the last
 * are shared with other rows. */
static void stream_shared_lines(const Rows *rows, ptrdiff_t size, const char *shared_lines) {
    ptrdiff_t segments = (rows->high - rows->low + 1) * rows->stride / size;
    for (ptrdiff_t segment = 0; segment <= segments; segment++) {
        char *at = rows->out + segment * size;
        const char *line = shared_lines + segment * CACHE_LINE;
        size_t before = (uintptr_t)at % CACHE_LINE;
        if (!before) continue;
        if (segment == 0)
            memcpy(at, line + before, CACHE_LINE - before);
        else if (segment == segments)
            memcpy(at - before, line, before);
        else
            stream_lines(at - before, line, 1);
    }
}

#define VARIANT_NUMBER(which, part, adds, streams)                                                 \
    ((((which) * 4 + (part)) * 2 + (adds)) * 2 + (streams))

#define CASE(real, which, part, adds, streams)                                                     \
    case VARIANT_NUMBER(which, part, adds, streams): {                                             \
        const Variant variant = {which, part, adds, streams, streams};                             \
        add_angles_##real##_rows(rows, first, last, anchor, offsets, n, scale, shared_lines,       \
                                 variant);                                                         \
        break;                                                                                     \
    }

/* clang-format off */
#define CASES(real, which)                                                                         \
    CASE(real, which, PAIRS, 0, 0) CASE(real, which, PAIRS, 0, 1)                                  \
    CASE(real, which, PAIRS, 1, 0) CASE(real, which, PAIRS, 1, 1)                                  \
    CASE(real, which, HALVES, 0, 0) CASE(real, which, HALVES, 1, 0)                                \
    CASE(real, which, SINES, 0, 1) CASE(real, which, SINES, 1, 1)                                  \
    CASE(real, which, COSINES, 0, 1) CASE(real, which, COSINES, 1, 1)
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
            ptrdiff_t sine = variant.part == PAIRS ? 2 * (first + i) : first + i;                  \
            ptrdiff_t cosine = variant.part == PAIRS ? sine + 1 : n + sine;                        \
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

/* Columns of a segment that were made in scratch, `size` bytes from byte `begin` on. Of the first
 * piece the bytes before a cache line are stored, of the last those after the lines before it; they
 * wait for the rest of their line where another segment shares it. */
static ALWAYS_INLINE void store_piece(int piece, const RowPointers *row, const char *made,
                                      ptrdiff_t begin, ptrdiff_t size, ptrdiff_t before,
                                      ptrdiff_t after) {
    ptrdiff_t lines = (piece == 2 ? after : size) / CACHE_LINE, rest = after % CACHE_LINE;
    char *out = row->out + begin, *line = row->shared_line;
    if (piece == 0) {
        memcpy(line ? line + CACHE_LINE - before : out, made, before);
        return;
    }
    if (piece == 2) {
        made += size - after;
        out += size - after;
    }
    stream_lines(out, made, lines);
    if (piece == 2)
        memcpy(line ? line + CACHE_LINE : out + lines * CACHE_LINE, made + lines * CACHE_LINE,
               rest);
}

/* How what is read for rows, all of it a column at a time, would wait for their stores. */
static ALWAYS_INLINE int reads_wait(const RowPointers *plus, const RowPointers *minus,
                                    const double *anchor, const double *offset, ptrdiff_t n,
                                    Variant variant) {
    const void *read[] = {anchor, anchor + n, offset, offset + n, plus->x, minus->x};
    int waiting = 0;
    for (int i = 0; i < (variant.adds ? 6 : 4); i++) {
        if (variant.which == COPY && (i == 2 || i == 3)) continue;
        waiting |= waits(read[i], plus->out) | waits(read[i], minus->out);
    }
    return waiting;
}

/* add_angles_<real>: rows of a call do not overlap, but out may be x, if nothing is streamed.
 *
 * _row: a last vector that is not full begins earlier, and its first columns are written twice. In
 * place that would add twice, so its columns are single ones there, as in rows below a vector.
 *
 * stream_<real>_segment: vectors begin at the first cache line of the segment. Its ends, all
 * columns outside of whole lines, are made in scratch, and so are the others where reads would wait
 * for the stores whichever way the loop went: see stretch.h.
 *
 * _rows: rows of `first` <= k <= `last`. */
#define DEFINE_ADD_ANGLES(real, reals)                                                             \
    static ALWAYS_INLINE void add_angles_##real##_columns(                                         \
        const RowPointers *plus, const RowPointers *minus, const double *anchor,                   \
        const double *offset, ptrdiff_t n, real scale, Range range, Variant variant) {             \
        double s[STEP], c[STEP], t[STEP], d[STEP];                                                 \
        ptrdiff_t i = range.first, count = range.end - range.first;                                \
        const double *sines = variant.which == COPY ? anchor + i : s;                              \
        const double *cosines = variant.which == COPY ? anchor + n + i : c;                        \
        if (variant.which != COPY)                                                                 \
            add_offset_columns(s, c, t, d, anchor + i, offset + i, n, count);                      \
        if (wants_plus(variant.which))                                                             \
            store_columns_##real(plus, sines, cosines, count, n, i, scale, variant);               \
        if (wants_minus(variant.which))                                                            \
            store_columns_##real(minus, t, d, count, n, i, scale, variant);                        \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void add_angles_##real##_loop(                                            \
        const RowPointers *upper, const RowPointers *lower, const double *anchor,                  \
        const double *offset, ptrdiff_t n, real factor, Range range, int downwards,                \
        Variant variant) {                                                                         \
        const RowPointers plus = *upper, minus = *lower;                                           \
        reals scale = set1_##reals(factor);                                                        \
        const int width = sizeof(reals) / sizeof(real), vectors = vectors_of(width, variant);      \
        for (ptrdiff_t done = 0; done < range.end - range.first; done += STEP) {                   \
            ptrdiff_t i = downwards ? range.end - STEP - done : range.first + done;                \
            Values at_plus, at_minus;                                                              \
            reals above[4], below[4];                                                              \
            if (variant.which == COPY)                                                             \
                load_row(&at_plus, anchor, n, i);                                                  \
            else                                                                                   \
                add_offset(&at_plus, &at_minus, anchor, offset, n, i);                             \
            if (wants_plus(variant.which)) vectors_##real(above, &at_plus, variant);               \
            if (wants_minus(variant.which)) vectors_##real(below, &at_minus, variant);             \
            /* everything is read before anything is stored: see `waits` */                        \
            for (int v = 0; v < vectors; v++) {                                                    \
                ptrdiff_t j = column_of(v, width, n, i, variant);                                  \
                if (wants_plus(variant.which))                                                     \
                    above[v] = add_vector_##real(&plus, j, above[v], scale, variant);              \
                if (wants_minus(variant.which))                                                    \
                    below[v] = add_vector_##real(&minus, j, below[v], scale, variant);             \
            }                                                                                      \
            for (int v = 0; v < vectors; v++) {                                                    \
                ptrdiff_t j = column_of(v, width, n, i, variant);                                  \
                if (wants_plus(variant.which)) store_vector_##real(&plus, j, above[v], variant);   \
                if (wants_minus(variant.which)) store_vector_##real(&minus, j, below[v], variant); \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void add_angles_##real##_row(                                             \
        const RowPointers *plus, const RowPointers *minus, const double *anchor,                   \
        const double *offset, ptrdiff_t n, real scale, Variant variant) {                          \
        Range full = {0, n - n % STEP}, last = {n - STEP, n}, rest = {full.end, n};                \
        add_angles_##real##_loop(plus, minus, anchor, offset, n, scale, full, 0, variant);         \
        if (rest.first == n) return;                                                               \
        if (n < STEP || (variant.adds && plus->x == plus->out))                                    \
            add_angles_##real##_columns(plus, minus, anchor, offset, n, scale, rest, variant);     \
        else                                                                                       \
            add_angles_##real##_loop(plus, minus, anchor, offset, n, scale, last, 0, variant);     \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void stream_##real##_segment(                                             \
        const RowPointers *plus, const RowPointers *minus, const double *anchor,                   \
        const double *offset, ptrdiff_t n, real scale, char *memory, Variant variant) {            \
        ptrdiff_t column = column_size(variant.part, sizeof(real)), step = STAGE_BYTES / column;   \
        ptrdiff_t aside = columns_aside(variant.part, sizeof(real));                               \
        ptrdiff_t before = bytes_to_cache_line(plus->out), first = before / column;                \
        Range full = {first, first + (n - first) / aside * aside};                                 \
        ptrdiff_t after = (n - full.end) * column;                                                 \
        const Range pieces[] = {{0, aside}, full, {n - aside, n}};                                 \
        int waiting = reads_wait(plus, minus, anchor, offset, n, variant);                         \
        Variant stored = variant;                                                                  \
        stored.streams = 0;                                                                        \
        for (int piece = before ? 0 : 1, end = after ? 3 : 2; piece < end; piece++) {              \
            Range left = pieces[piece];                                                            \
            if (piece == 1 && waiting != (UPWARDS | DOWNWARDS)) {                                  \
                add_angles_##real##_loop(plus, minus, anchor, offset, n, scale, full,              \
                                         waiting == UPWARDS, variant);                             \
                continue;                                                                          \
            }                                                                                      \
            for (; left.first < left.end; left.first += step) {                                    \
                Range range = {left.first, left.first + step};                                     \
                if (range.end > left.end) range.end = left.end;                                    \
                ptrdiff_t begin = range.first * column, size = (range.end - range.first) * column; \
                char *above = apart_from(memory, plus->out + begin), *below = above + STAGE_BYTES; \
                RowPointers upper = {above - begin, plus->x, plus->next, NULL};                    \
                RowPointers lower = {below - begin, minus->x, minus->next, NULL};                  \
                add_angles_##real##_loop(&upper, &lower, anchor, offset, n, scale, range, 0,       \
                                         stored);                                                  \
                if (wants_plus(variant.which))                                                     \
                    store_piece(piece, plus, above, begin, size, before, after);                   \
                if (wants_minus(variant.which))                                                    \
                    store_piece(piece, minus, below, begin, size, before, after);                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void add_angles_##real##_rows(                                            \
        const Rows *rows, ptrdiff_t first, ptrdiff_t last, const double *anchor,                   \
        const double *offsets, ptrdiff_t n, real scale, char *shared_lines, Variant variant) {     \
        char memory[APART_ROOM + 2 * STAGE_BYTES];                                                 \
        size_t skipped = variant.part == COSINES ? n * sizeof(real) : 0;                           \
        for (ptrdiff_t k = first; k <= last; k++) {                                                \
            const double *row = variant.which == COPY ? anchor + 2 * n * k : anchor;               \
            const double *offset = offsets + 2 * n * k;                                            \
            RowPointers plus = {0}, minus = {0};                                                   \
            if (wants_plus(variant.which))                                                         \
                plus = row_at(rows, k, 1, variant, skipped, shared_lines);                         \
            if (wants_minus(variant.which))                                                        \
                minus = row_at(rows, -k, -1, variant, skipped, shared_lines);                      \
            if (!wants_plus(variant.which)) plus = minus;                                          \
            if (!wants_minus(variant.which)) minus = plus;                                         \
            if (variant.streams)                                                                   \
                stream_##real##_segment(&plus, &minus, row, offset, n, scale, memory, variant);    \
            else                                                                                   \
                add_angles_##real##_row(&plus, &minus, row, offset, n, scale, variant);            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void add_angles_##real##_some(                                                          \
        const Rows *rows, int which, ptrdiff_t first, ptrdiff_t last, const double *anchor,        \
        const double *offsets, ptrdiff_t n, real scale, int part, char *shared_lines) {            \
        if (first > last) return;                                                                  \
        switch (VARIANT_NUMBER(which, part, rows->x != NULL, rows->streams)) {                     \
            CASES(real, COPY) CASES(real, PLUS) CASES(real, MINUS) CASES(real, BOTH)               \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void add_angles_##real##_part(const Rows *rows, const double *anchor,                   \
                                         const double *offsets, int tabulated, ptrdiff_t n,        \
                                         real scale, int part, char *shared_lines) {               \
        ptrdiff_t low = rows->low, high = rows->high, both = high < -low ? high : -low;            \
        if (both < 0) both = 0;                                                                    \
        if (tabulated && low >= 0) {                                                               \
            add_angles_##real##_some(rows, COPY, low, high, anchor, offsets, n, scale, part,       \
                                     shared_lines);                                                \
            return;                                                                                \
        }                                                                                          \
        if (low <= 0 && high >= 0)                                                                 \
            add_angles_##real##_some(rows, COPY, 0, 0, anchor, offsets, n, scale, part,            \
                                     shared_lines);                                                \
        if (rows->streams && 2 * rows->stride % CACHE_LINE)                                        \
            both = 0;                                                                              \
        else                                                                                       \
            add_angles_##real##_some(rows, BOTH, 1, both, anchor, offsets, n, scale, part,         \
                                     shared_lines);                                                \
        add_angles_##real##_some(rows, PLUS, low > both ? low : both + 1, high, anchor, offsets,   \
                                 n, scale, part, shared_lines);                                    \
        add_angles_##real##_some(rows, MINUS, -high > both ? -high : both + 1, -low, anchor,       \
                                 offsets, n, scale, part, shared_lines);                           \
    }                                                                                              \
                                                                                                   \
    static void add_angles_##real(const Rows *rows, const double *anchor, const double *offsets,   \
                                  int tabulated, ptrdiff_t n, real scale, int interleaved) {       \
        char lines[(2 * MAX_ROWS + 1) * CACHE_LINE];                                               \
        ptrdiff_t size = (interleaved ? 2 : 1) * n * (ptrdiff_t)sizeof(real);                      \
        char *shared = rows->stride == 2 * n * (ptrdiff_t)sizeof(real) ? lines : NULL;             \
        if (!rows->streams || interleaved) {                                                       \
            add_angles_##real##_part(rows, anchor, offsets, tabulated, n, scale,                   \
                                     interleaved ? PAIRS : HALVES, shared);                        \
        } else {                                                                                   \
            add_angles_##real##_part(rows, anchor, offsets, tabulated, n, scale, SINES, shared);   \
            add_angles_##real##_part(rows, anchor, offsets, tabulated, n, scale, COSINES, shared); \
        }                                                                                          \
        if (rows->streams && shared) stream_shared_lines(rows, size, shared);                      \
    }
DEFINE_ADD_ANGLES(float, floats)
DEFINE_ADD_ANGLES(double, doubles)

/* out = x * scale; out may be x. */
#define DEFINE_SCALE(real)                                                                         \
    static inline void scale_##real(real *out, const real *x, real scale, ptrdiff_t size) {        \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = 0; j < size; j++) out[j] = x[j] * scale;                                \
    }
DEFINE_SCALE(float)
DEFINE_SCALE(double)
