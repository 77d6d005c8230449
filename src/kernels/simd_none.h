/* The operations of simd.h in plain C, for compilers without vector extensions. */
#pragma once

#define LANES 1
typedef double doubles;
typedef struct {
    float low, high;
} floats;

static ALWAYS_INLINE floats none_pair(float low, float high) {
    floats v = {low, high};
    return v;
}

static ALWAYS_INLINE void none_store_floats(float *to, floats v) {
    to[0] = v.low;
    to[1] = v.high;
}

static ALWAYS_INLINE floats none_add_floats(floats a, floats b) {
    return none_pair(a.low + b.low, a.high + b.high);
}

static ALWAYS_INLINE floats none_sub_floats(floats a, floats b) {
    return none_pair(a.low - b.low, a.high - b.high);
}

static ALWAYS_INLINE floats none_mul_floats(floats a, floats b) {
    return none_pair(a.low * b.low, a.high * b.high);
}

#define load_floats(from) none_pair((from)[0], (from)[1])
#define load_doubles(from) (*(from))
#define store_floats none_store_floats
#define store_doubles(to, v) (*(to) = (v))
#define HAS_STREAM 0
#define stream_floats store_floats
#define stream_doubles store_doubles
#define set1_floats(value) none_pair(value, value)
#define set1_doubles(value) (value)
#define add_floats none_add_floats
#define add_doubles(a, b) ((a) + (b))
#define sub_floats none_sub_floats
#define sub_doubles(a, b) ((a) - (b))
#define mul_floats none_mul_floats
#define mul_doubles(a, b) ((a) * (b))
#define to_floats(a, b) none_pair((float)(a), (float)(b))
#define to_floats_interleaved to_floats
#define interleave_doubles(a, b) ((void)0) /* of one lane each, they are */
#define prefetch(address) ((void)(address))
#define fence() ((void)0)
