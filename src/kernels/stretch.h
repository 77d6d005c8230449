/* Long stretches of memory, written with non-temporal stores, which leave the caches as they are.
 *
 * A non-temporal store writes a whole cache line at once. A line of which a part is written so and
 * another part by ordinary stores costs many times as much, so these functions store whole lines,
 * and the ends of a stretch as usual.
 *
 * While such stores wait, a read whose address is a little behind one of them modulo 4096 bytes
 * waits for it (4K aliasing: the processor compares 12 bits first). Measured, reads up to 64 bytes
 * behind take 2 to 3 times as long on Intel, and up to 192 bytes behind on AMD's Zen 3. Then loops
 * go downwards, where a read is ahead of the stores before it. If some reads would wait so too,
 * results are made in scratch first, from where reads do not wait.
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
    /* Bytes of memory that what follows may skip. */
    APART_ROOM = ALIAS_SPAN + 2 * CACHE_LINE,
    /* Bytes that are made in scratch at a time for each of two stretches: half of what the store
     * buffer holds, so that it never runs empty. */
    STAGE_BYTES = 1024
};

static ALWAYS_INLINE size_t bytes_to_cache_line(const void *address) {
    return -(uintptr_t)address % CACHE_LINE;
}

/* How reads from `x` on would wait for stores from `out` on, while both go on at one speed: the
 * flag UPWARDS if they go to higher addresses, DOWNWARDS if to lower ones, 0 if they never do. */
enum { UPWARDS = 1, DOWNWARDS = 2 };

static ALWAYS_INLINE int waits(const void *x, const void *out) {
    size_t behind = ((uintptr_t)out - (uintptr_t)x) % ALIAS_SPAN;
    size_t ahead = ((uintptr_t)x - (uintptr_t)out) % ALIAS_SPAN;
    return (behind && behind < LAG ? UPWARDS : 0) | (ahead && ahead < LAG ? DOWNWARDS : 0);
}

/* A cache line of `memory` that lies where `address` does modulo 4096, within APART_ROOM. */
static ALWAYS_INLINE char *place_like(char *memory, const void *address) {
    size_t to_line = bytes_to_cache_line(memory);
    size_t away = ((uintptr_t)address - (uintptr_t)(memory + to_line)) % ALIAS_SPAN;
    return memory + to_line + away / CACHE_LINE * CACHE_LINE;
}

/* One whose reads do not wait for stores to `out`, whichever way they go. */
static ALWAYS_INLINE char *apart_from(char *memory, const void *out) {
    return place_like(memory, (const char *)out + LEAD);
}

/* The same, but not a cache line: where lines of `out` begin, lines of memory do. */
static ALWAYS_INLINE char *apart_in_line(char *memory, const void *out) {
    return apart_from(memory, out) + (uintptr_t)out % CACHE_LINE;
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
    /* `size` elements, whole lines, of one or two pages, stored where `out` is or a page apart.   \
     */                                                                                            \
    static ALWAYS_INLINE void stream_sum_##real##_lines(                                           \
        real *out, const real *x, const real *row, reals scale, ptrdiff_t pages, ptrdiff_t size,   \
        int downwards, int streams) {                                                              \
        const ptrdiff_t page = ALIAS_SPAN / sizeof(real), step = sizeof(reals) / sizeof(real);     \
        const ptrdiff_t line = CACHE_LINE / sizeof(real);                                          \
        const ptrdiff_t apart = streams ? page : STAGE_BYTES / (ptrdiff_t)sizeof(real);            \
        for (ptrdiff_t done = 0; done < size; done += line) {                                      \
            ptrdiff_t i = downwards ? size - line - done : done;                                   \
            reals sums[2][CACHE_LINE / sizeof(reals)];                                             \
            for (ptrdiff_t p = 0; p < pages; p++) {                                                \
                const real *from = x + p * page + i;                                               \
                prefetch(from + pages * page);                                                     \
                for (ptrdiff_t v = 0; v < line / step; v++)                                        \
                    sums[p][v] = add_##reals(mul_##reals(load_##reals(from + v * step), scale),    \
                                             load_##reals(row + p * page + i + v * step));         \
            }                                                                                      \
            for (ptrdiff_t p = 0; p < pages; p++)                                                  \
                for (ptrdiff_t v = 0; v < line / step; v++) {                                      \
                    real *to = out + p * apart + i + v * step;                                     \
                    if (streams)                                                                   \
                        stream_##reals(to, sums[p][v]);                                            \
                    else                                                                           \
                        store_##reals(to, sums[p][v]);                                             \
                }                                                                                  \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static ALWAYS_INLINE void stream_sum_##real##_pages(real *out, const real *x, const real *row, \
                                                        reals scale, ptrdiff_t pages,              \
                                                        ptrdiff_t size, int waiting) {             \
        const ptrdiff_t part = STAGE_BYTES / sizeof(real), page = ALIAS_SPAN / sizeof(real);       \
        const ptrdiff_t line = CACHE_LINE / sizeof(real);                                          \
        char memory[APART_ROOM + 2 * STAGE_BYTES];                                                 \
        if (waiting != (UPWARDS | DOWNWARDS)) {                                                    \
            stream_sum_##real##_lines(out, x, row, scale, pages, size, waiting == UPWARDS, 1);     \
            return;                                                                                \
        }                                                                                          \
        for (ptrdiff_t j = 0; j < size; j += part) {                                               \
            real *made = (real *)apart_from(memory, out + j);                                      \
            ptrdiff_t count = size - j < part ? size - j : part;                                   \
            stream_sum_##real##_lines(made, x + j, row + j, scale, pages, count, 0, 0);            \
            for (ptrdiff_t i = 0; i < count; i += line)                                            \
                for (ptrdiff_t p = 0; p < pages; p++)                                              \
                    stream_lines((char *)(out + j + p * page + i),                                 \
                                 (const char *)(made + p * part + i), 1);                          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void stream_sum_##real(real *out, const real *x, const real *row, real factor,          \
                                  ptrdiff_t count) {                                               \
        const ptrdiff_t page = ALIAS_SPAN / sizeof(real), line = CACHE_LINE / sizeof(real);        \
        ptrdiff_t first = bytes_to_cache_line(out) / sizeof(real), end, j;                         \
        int waiting = waits(x, out) | waits(row, out);                                             \
        reals scale = set1_##reals(factor);                                                        \
        if (!HAS_STREAM || first > count) first = count;                                           \
        end = count - (count - first) % line;                                                      \
        add_row_##real(out, x, row, factor, first);                                                \
        for (j = first; j + 2 * page <= end; j += 2 * page)                                        \
            stream_sum_##real##_pages(out + j, x + j, row + j, scale, 2, page, waiting);           \
        for (; j < end; j += page)                                                                 \
            stream_sum_##real##_pages(out + j, x + j, row + j, scale, 1,                           \
                                      end - j < page ? end - j : page, waiting);                   \
        add_row_##real(out + end, x + end, row + end, factor, count - end);                        \
    }
DEFINE_STREAM_SUM(float, floats)
DEFINE_STREAM_SUM(double, doubles)

/* Orders non-temporal stores before what another thread is told next. */
static inline void stream_fence(void) { fence(); }
