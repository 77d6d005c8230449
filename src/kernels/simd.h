/* Vectors of the build: one set of operations, which every kernel is written in.
 *
 *   simd_x86.h    intrinsics of AVX-512, AVX or SSE2
 *   simd_gnu.h    vector extensions of gcc and clang: other processors, or POSENC_NO_INTRINSICS
 *   simd_none.h   plain C: other compilers, or POSENC_NO_SIMD
 *
 * Another instruction set is another such file. Each defines
 *
 *   doubles, floats                  vectors of LANES doubles and of 2 * LANES floats
 *   load_, store_                    from and to memory, at any address
 *   stream_                          non-temporal store, to a multiple of the vector's size;
 *                                    HAS_STREAM is 0 where this is an ordinary store
 *   set1_, add_, sub_, mul_          of floats and of doubles
 *   to_floats(a, b)                  two vectors of doubles in one of floats, a first
 *   to_floats_interleaved(a, b)      the same as a[0], b[0], a[1], b[1], ...
 *   interleave_doubles(&a, &b)       a[0], b[0], a[1], ... in a, the rest in b
 *   prefetch(address)                a cache line into the nearest cache; any address will do
 *   fence()                          between non-temporal stores and what tells another thread
 *
 * and, where there are instructions for it,
 *
 *   load_float16, store_float16      2 * LANES of float16 as floats; rounded to nearest even
 *   load_bfloat16, store_bfloat16    the same of bfloat16; a NaN's last 16 bits are to be 0
 *   load_floats_twice(from)          from[0], from[0], from[1], from[1], ...
 *   swap_floats(v)                   v[1], v[0], v[3], v[2], ...
 *   sub_add_floats(a, b)             a[0] - b[0], a[1] + b[1], a[2] - b[2], ...
 *
 * All of them are IEEE operations, each rounded to its own type, so results do not depend on which
 * file it is.
 */
#pragma once

#include <float.h>

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#error "posenc's results need IEEE arithmetic: compile without fast-math"
#endif
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16 /* 16: _Float16 alone is different */
#error "posenc's results need every operation rounded to its own type (on x86-32: -mfpmath=sse)"
#endif

#if defined(_MSC_VER)
#define ALWAYS_INLINE __forceinline
#else
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/* Before a loop whose iterations do not depend on one another, though out may be x. */
#if defined(_MSC_VER)
#define NO_DEPENDENCE __pragma(loop(ivdep))
#elif defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

/* What comes before it in the source is not moved behind it, or the other way round. */
#if defined(_MSC_VER)
#include <intrin.h>
#define KEEP_ORDER _ReadWriteBarrier()
#else
#define KEEP_ORDER __asm__ volatile("" ::: "memory")
#endif

#define CACHE_LINE 64 /* bytes */

/* a * b - product, exactly, where product is a * b rounded: one fused multiply-add. It is the
 * double that Dekker's product gives, where nothing underflows (T. J. Dekker, "A floating-point
 * technique for extending the available precision", Numer. Math. 18, 1971). */
#if defined(__FMA__)
#define HAS_FMA 1
static ALWAYS_INLINE double product_error(double a, double b, double product) {
    return __builtin_fma(a, b, -product);
}
#else
#define HAS_FMA 0
#define product_error(a, b, product) 0.0
#endif

#if defined(POSENC_NO_SIMD)
#include "simd_none.h"
#elif (defined(__x86_64__) || defined(_M_X64)) && !defined(POSENC_NO_INTRINSICS)
#include "simd_x86.h"
#elif defined(__GNUC__)
#include "simd_gnu.h"
#else
#include "simd_none.h"
#endif

#if !defined(LANES) || !defined(HAS_STREAM)
#error "LANES or HAS_STREAM is not defined"
#endif
#if !defined(load_floats) || !defined(load_doubles)
#error "load_floats or load_doubles is not defined"
#endif
#if !defined(store_floats) || !defined(store_doubles)
#error "store_floats or store_doubles is not defined"
#endif
#if !defined(stream_floats) || !defined(stream_doubles)
#error "stream_floats or stream_doubles is not defined"
#endif
#if !defined(set1_floats) || !defined(set1_doubles)
#error "set1_floats or set1_doubles is not defined"
#endif
#if !defined(add_floats) || !defined(add_doubles)
#error "add_floats or add_doubles is not defined"
#endif
#if !defined(mul_floats) || !defined(mul_doubles)
#error "mul_floats or mul_doubles is not defined"
#endif
#if !defined(sub_floats) || !defined(sub_doubles)
#error "sub_floats or sub_doubles is not defined"
#endif
#if !defined(to_floats) || !defined(to_floats_interleaved) || !defined(interleave_doubles)
#error "to_floats, to_floats_interleaved or interleave_doubles is not defined"
#endif
#if !defined(prefetch) || !defined(fence)
#error "prefetch or fence is not defined"
#endif
#if defined(load_float16) != defined(store_float16)
#error "load_float16 and store_float16 go together"
#endif
#if defined(load_bfloat16) != defined(store_bfloat16)
#error "load_bfloat16 and store_bfloat16 go together"
#endif
#if defined(load_floats_twice) != defined(swap_floats)                                             \
    || defined(load_floats_twice) != defined(sub_add_floats)
#error "load_floats_twice, swap_floats and sub_add_floats go together"
#endif
