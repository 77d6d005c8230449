/* Long stretches of memory, written with non-temporal stores, which leave the caches as they are.
 *
 * A non-temporal store writes a whole cache line at once. A line of which a part is written so and
 * another part by ordinary stores costs many times as much, so these functions store whole lines,
 * and the ends of a stretch as usual.
 *
 * While such stores wait, a read whose address is a little behind one of them modulo 4096 bytes
 * waits for it (4K aliasing: the processor compares 12 bits first). Measured, reads up to 64 bytes
 * behind take 2 to 3 times as long on Intel, and up to 192 bytes behind on AMD's Zen 3. What would
 * be read so is made in scratch first, which lies some bytes ahead.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

enum {
    ALIAS_SPAN = 4096,
    LAG = 192,
    LEAD = 256,
    /* Bytes of memory that `apart_from` may skip. */
    APART_ROOM = ALIAS_SPAN + CACHE_LINE,
    /* Bytes that are made in scratch at a time for each of two stretches: half of what the store
     * buffer holds, so that it never runs empty. */
    STAGED = 1024
};

static ALWAYS_INLINE size_t bytes_to_cache_line(const void *address) {
    return -(uintptr_t)address % CACHE_LINE;
}

/* Whether a read from `x` on would wait for stores from `out` on. */
static ALWAYS_INLINE int lags(const void *x, const void *out) {
    size_t lag = ((uintptr_t)out - (uintptr_t)x) % ALIAS_SPAN;
    return lag && lag < LAG;
}

/* A cache line of `memory` whose reads do not wait for stores to `out`: it is ahead of it. */
static ALWAYS_INLINE char *apart_from(char *memory, const void *out) {
    size_t to_line = bytes_to_cache_line(memory);
    size_t away = ((uintptr_t)out + LEAD - (uintptr_t)(memory + to_line)) % ALIAS_SPAN;
    return memory + to_line + away / CACHE_LINE * CACHE_LINE;
}

/* Cache lines of `out`, from `made`, which may lie anywhere. */
static ALWAYS_INLINE void stream_lines(char *out, const char *made, ptrdiff_t lines) {
    for (ptrdiff_t j = 0; j < lines * CACHE_LINE; j += sizeof(floats))
        stream_floats((float *)(out + j), load_floats((const float *)(made + j)));
}

/* `size` bytes of `made`. */
static void stream_copy(char *out, const char *made, ptrdiff_t size) {
    ptrdiff_t first = bytes_to_cache_line(out), lines;
    if (!HAS_STREAM || size < first + CACHE_LINE) {
        memcpy(out, made, size);
        return;
    }
    lines = (size - first) / CACHE_LINE;
    memcpy(out, made, first);
    stream_lines(out + first, made + first, lines);
    first += lines * CACHE_LINE;
    memcpy(out + first, made + first, size - first);
}

/* out = x * scale + row for contiguous elements; out may be x. */
#define DEFINE_ADD_ROW(real)                                                                       \
    static void add_row_##real(real *out, const real *x, const real *row, real scale,              \
                               ptrdiff_t count) {                                                  \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = 0; j < count; j++) out[j] = x[j] * scale + row[j];                      \
    }
DEFINE_ADD_ROW(float)
DEFINE_ADD_ROW(double)

/* The same for elements that share no memory, with non-temporal stores. Two pages are written at a
 * time, which is faster than one after the other. */
#define DEFINE_STREAM_SUM(real, reals)                                                             \
    static ALWAYS_INLINE void stream_sum_##real##_lines(real *out, const real *x, const real *row, \
                                                        reals scale, ptrdiff_t pages,              \
                                                        ptrdiff_t size, int streams) {             \
        const ptrdiff_t page = ALIAS_SPAN / sizeof(real), step = sizeof(reals) / sizeof(real);     \
        const ptrdiff_t line = CACHE_LINE / sizeof(real);                                          \
        const ptrdiff_t apart = streams ? page : STAGED / (ptrdiff_t)sizeof(real);                 \
        for (ptrdiff_t i = 0; i < size; i += line)                                                 \
            for (ptrdiff_t p = 0; p < pages; p++) {                                                \
                prefetch(x + p * page + i + pages * page);                                         \
                for (ptrdiff_t j = i; j < i + line; j += step) {                                   \
                    reals v = mul_##reals(load_##reals(x + p * page + j), scale);                  \
                    v = add_##reals(v, load_##reals(row + p * page + j));                          \
                    if (streams)                                                                   \
                        stream_##reals(out + p * apart + j, v);                                    \
                    else                                                                           \
                        store_##reals(out + p * apart + j, v);                                     \
                }                                                                                  \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void stream_sum_##real(real *out, const real *x, const real *row, real factor,          \
                                  ptrdiff_t count) {                                               \
        const ptrdiff_t page = ALIAS_SPAN / sizeof(real), chunk = STAGED / sizeof(real);           \
        char memory[APART_ROOM + 2 * STAGED];                                                      \
        ptrdiff_t j = bytes_to_cache_line(out) / sizeof(real), end, pages, size;                   \
        int waits = lags(x, out) || lags(row, out);                                                \
        reals scale = set1_##reals(factor);                                                        \
        if (!HAS_STREAM || j > count) j = count;                                                   \
        add_row_##real(out, x, row, factor, j);                                                    \
        end = count - (count - j) % (CACHE_LINE / (ptrdiff_t)sizeof(real));                        \
        for (; j < end; j += pages == 2 ? 2 * page : size) {                                       \
            pages = end - j >= 2 * page ? 2 : 1;                                                   \
            size = pages == 2 || end - j > page ? page : end - j;                                  \
            for (ptrdiff_t c = 0; c < size; c += chunk) {                                          \
                ptrdiff_t part = size - c < chunk ? size - c : chunk, at = j + c;                  \
                if (!waits) {                                                                      \
                    if (pages == 2)                                                                \
                        stream_sum_##real##_lines(out + at, x + at, row + at, scale, 2, part, 1);  \
                    else                                                                           \
                        stream_sum_##real##_lines(out + at, x + at, row + at, scale, 1, part, 1);  \
                } else {                                                                           \
                    real *made = (real *)apart_from(memory, out + at);                             \
                    stream_sum_##real##_lines(made, x + at, row + at, scale, pages, part, 0);      \
                    for (ptrdiff_t l = 0; l < part; l += CACHE_LINE / sizeof(real))                \
                        for (ptrdiff_t p = 0; p < pages; p++)                                      \
                            stream_lines((char *)(out + at + p * page + l),                        \
                                         (const char *)(made + p * chunk + l), 1);                 \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        add_row_##real(out + end, x + end, row + end, factor, count - end);                        \
    }
DEFINE_STREAM_SUM(float, floats)
DEFINE_STREAM_SUM(double, doubles)

/* Orders non-temporal stores before what another thread is told next. */
static inline void stream_fence(void) { fence(); }
