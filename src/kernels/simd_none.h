/* The operations of simd.h in plain C, for processors that have no file of their own. */
#pragma once

#include <string.h>

#ifndef LANES
#define LANES 1
#endif
typedef struct {
    double lane[LANES];
} doubles;
typedef struct {
    float lane[2 * LANES];
} floats;

#define DEFINE_OPERATIONS(real, reals, lanes)                                                      \
    static ALWAYS_INLINE reals none_load_##reals(const real *from) {                               \
        reals v;                                                                                   \
        memcpy(&v, from, sizeof(v));                                                               \
        return v;                                                                                  \
    }                                                                                              \
    static ALWAYS_INLINE void none_store_##reals(real *to, reals v) { memcpy(to, &v, sizeof(v)); } \
    static ALWAYS_INLINE reals none_set1_##reals(real value) {                                     \
        reals v;                                                                                   \
        for (int i = 0; i < lanes; i++) v.lane[i] = value;                                         \
        return v;                                                                                  \
    }                                                                                              \
    static ALWAYS_INLINE reals none_add_##reals(reals a, reals b) {                                \
        for (int i = 0; i < lanes; i++) a.lane[i] = a.lane[i] + b.lane[i];                         \
        return a;                                                                                  \
    }                                                                                              \
    static ALWAYS_INLINE reals none_mul_##reals(reals a, reals b) {                                \
        for (int i = 0; i < lanes; i++) a.lane[i] = a.lane[i] * b.lane[i];                         \
        return a;                                                                                  \
    }
DEFINE_OPERATIONS(float, floats, 2 * LANES)
DEFINE_OPERATIONS(double, doubles, LANES)

static ALWAYS_INLINE doubles none_sub_doubles(doubles a, doubles b) {
    for (int i = 0; i < LANES; i++) a.lane[i] = a.lane[i] - b.lane[i];
    return a;
}

static ALWAYS_INLINE floats none_to_floats(doubles a, doubles b) {
    floats v;
    for (int i = 0; i < LANES; i++) {
        v.lane[i] = (float)a.lane[i];
        v.lane[LANES + i] = (float)b.lane[i];
    }
    return v;
}

static ALWAYS_INLINE floats none_to_floats_interleaved(doubles a, doubles b) {
    floats v;
    for (int i = 0; i < LANES; i++) {
        v.lane[2 * i] = (float)a.lane[i];
        v.lane[2 * i + 1] = (float)b.lane[i];
    }
    return v;
}

static ALWAYS_INLINE void none_interleave_doubles(doubles *a, doubles *b) {
    double both[2 * LANES];
    for (int i = 0; i < LANES; i++) {
        both[2 * i] = a->lane[i];
        both[2 * i + 1] = b->lane[i];
    }
    memcpy(a, both, sizeof(*a));
    memcpy(b, both + LANES, sizeof(*b));
}

#define load_floats none_load_floats
#define load_doubles none_load_doubles
#define store_floats none_store_floats
#define store_doubles none_store_doubles
#define stream_floats none_store_floats /* there is no non-temporal store in C */
#define stream_doubles none_store_doubles
#define set1_floats none_set1_floats
#define set1_doubles none_set1_doubles
#define add_floats none_add_floats
#define add_doubles none_add_doubles
#define sub_doubles none_sub_doubles
#define mul_floats none_mul_floats
#define mul_doubles none_mul_doubles
#define to_floats none_to_floats
#define to_floats_interleaved none_to_floats_interleaved
#define interleave_doubles none_interleave_doubles
#define prefetch(address) ((void)(address))
#define fence() ((void)0)
