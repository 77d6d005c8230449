/* The operations of simd.h in the vector extensions of gcc and clang, which compile them for
 * whatever vectors the processor has (NEON, VSX, z13, RVV), or to scalars. */
#pragma once

#include <string.h>

#define LANES 2
typedef double doubles __attribute__((vector_size(16)));
typedef float floats __attribute__((vector_size(16)));

static ALWAYS_INLINE floats gnu_load_floats(const float *from) {
    floats v;
    memcpy(&v, from, sizeof(v));
    return v;
}

static ALWAYS_INLINE doubles gnu_load_doubles(const double *from) {
    doubles v;
    memcpy(&v, from, sizeof(v));
    return v;
}

static ALWAYS_INLINE void gnu_store_floats(float *to, floats v) { memcpy(to, &v, sizeof(v)); }
static ALWAYS_INLINE void gnu_store_doubles(double *to, doubles v) { memcpy(to, &v, sizeof(v)); }

static ALWAYS_INLINE floats gnu_to_floats(doubles a, doubles b) {
    return (floats){(float)a[0], (float)a[1], (float)b[0], (float)b[1]};
}

static ALWAYS_INLINE floats gnu_to_floats_interleaved(doubles a, doubles b) {
    return (floats){(float)a[0], (float)b[0], (float)a[1], (float)b[1]};
}

static ALWAYS_INLINE void gnu_interleave_doubles(doubles *a, doubles *b) {
    doubles first = {(*a)[0], (*b)[0]};
    *b = (doubles){(*a)[1], (*b)[1]};
    *a = first;
}

#define load_floats gnu_load_floats
#define load_doubles gnu_load_doubles
#define store_floats gnu_store_floats
#define store_doubles gnu_store_doubles
#define HAS_STREAM 0
#define stream_floats store_floats
#define stream_doubles store_doubles
#define set1_floats(value) ((floats){value, value, value, value})
#define set1_doubles(value) ((doubles){value, value})
#define add_floats(a, b) ((a) + (b))
#define add_doubles(a, b) ((a) + (b))
#define sub_floats(a, b) ((a) - (b))
#define sub_doubles(a, b) ((a) - (b))
#define mul_floats(a, b) ((a) * (b))
#define mul_doubles(a, b) ((a) * (b))
#define to_floats gnu_to_floats
#define to_floats_interleaved gnu_to_floats_interleaved
#define interleave_doubles gnu_interleave_doubles
#define prefetch(address) ((void)(address)) /* ordinary stores leave it to the processor */
#define fence() ((void)0)
