/* Stores past the caches, for outputs larger than these, and the exact product of two doubles.
 *
 * The loops below do what `rotate` of _rows.pxi and `add_scaled` of _runs.pxi do, operation by
 * operation, in the
 * widest vectors of the build, over a range whose stores are aligned; `aligned_range` finds it.
 * A compiler without these instructions is told that there is none.
 */
#include <stddef.h>
#include <stdint.h>

#if defined(__FMA__)
/* a * b - product, exactly: the same double as Dekker's where nothing underflows. */
#define HAS_FMA 1
#define PRODUCT_ERROR(a, b, product) __builtin_fma(a, b, -(product))
#else
#define HAS_FMA 0
#define PRODUCT_ERROR(a, b, product) 0.0
#endif

#define LINE 64 /* bytes of a cache line */

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 8
#define VECTOR(op) _mm512_##op
typedef __m512d doubles;
typedef __m512 floats;
static inline void put_d(double *to, doubles v) { _mm512_stream_pd(to, v); }
static inline void put_f(float *to, doubles v) { _mm256_stream_ps(to, _mm512_cvtpd_ps(v)); }
static inline void put_pairs_d(double *to, doubles s, doubles c) {
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_stream_pd(to, _mm512_permutex2var_pd(s, low, c));
    _mm512_stream_pd(to + 8, _mm512_permutex2var_pd(s, high, c));
}
static inline void put_pairs_f(float *to, doubles s, doubles c) {
    const __m512i pairs =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512 sines = _mm512_castps256_ps512(_mm512_cvtpd_ps(s));
    __m512 cosines = _mm512_castps256_ps512(_mm512_cvtpd_ps(c));
    _mm512_stream_ps(to, _mm512_permutex2var_ps(sines, pairs, cosines));
}
#elif defined(__AVX__)
#include <immintrin.h>
#define LANES 4
#define VECTOR(op) _mm256_##op
typedef __m256d doubles;
typedef __m256 floats;
static inline void put_d(double *to, doubles v) { _mm256_stream_pd(to, v); }
static inline void put_f(float *to, doubles v) { _mm_stream_ps(to, _mm256_cvtpd_ps(v)); }
static inline void put_pairs_d(double *to, doubles s, doubles c) {
    doubles low = _mm256_unpacklo_pd(s, c), high = _mm256_unpackhi_pd(s, c);
    _mm256_stream_pd(to, _mm256_permute2f128_pd(low, high, 0x20));
    _mm256_stream_pd(to + 4, _mm256_permute2f128_pd(low, high, 0x31));
}
static inline void put_pairs_f(float *to, doubles s, doubles c) {
    __m128 sines = _mm256_cvtpd_ps(s), cosines = _mm256_cvtpd_ps(c);
    __m256 low = _mm256_castps128_ps256(_mm_unpacklo_ps(sines, cosines));
    _mm256_stream_ps(to, _mm256_insertf128_ps(low, _mm_unpackhi_ps(sines, cosines), 1));
}
#elif defined(__x86_64__) || defined(_M_X64)
#include <emmintrin.h>
#define LANES 2
#define VECTOR(op) _mm_##op
typedef __m128d doubles;
typedef __m128 floats;
static inline void put_d(double *to, doubles v) { _mm_stream_pd(to, v); }
static inline void put_f(float *to, doubles v) {
    _mm_stream_si64((long long *)to, _mm_cvtsi128_si64(_mm_castps_si128(_mm_cvtpd_ps(v))));
}
static inline void put_pairs_d(double *to, doubles s, doubles c) {
    _mm_stream_pd(to, _mm_unpacklo_pd(s, c));
    _mm_stream_pd(to + 2, _mm_unpackhi_pd(s, c));
}
static inline void put_pairs_f(float *to, doubles s, doubles c) {
    _mm_stream_ps(to, _mm_unpacklo_ps(_mm_cvtpd_ps(s), _mm_cvtpd_ps(c)));
}
#endif

#if defined(LANES)

/* Of `count` elements of `size` bytes from `to` on, those from the first whose address is that of a
 * line, in a number that every loop below covers without a rest. */
static inline ptrdiff_t aligned_range(const void *to, ptrdiff_t size, ptrdiff_t count,
                                      ptrdiff_t *end) {
    ptrdiff_t before = -(uintptr_t)to % LINE;
    ptrdiff_t first = before % size == 0 && before / size < count ? before / size : count;
    *end = first + (count - first) / (2 * LANES) * (2 * LANES);
    return first;
}

#define DEFINE_STREAM_ROTATE(real, suffix)                                                         \
    static inline void stream_rotate_##real(                                                       \
        real *plus, real *minus, const double *anchor, const double *offset, ptrdiff_t n,          \
        int paired, ptrdiff_t i, ptrdiff_t end) {                                                  \
        for (; i < end; i += LANES) {                                                              \
            doubles s = VECTOR(loadu_pd)(anchor + i), c = VECTOR(loadu_pd)(anchor + n + i);        \
            doubles u = VECTOR(loadu_pd)(offset + i), v = VECTOR(loadu_pd)(offset + n + i);        \
            doubles sc = VECTOR(mul_pd)(s, v), cs = VECTOR(mul_pd)(c, u);                          \
            doubles cc = VECTOR(mul_pd)(c, v), ss = VECTOR(mul_pd)(s, u);                          \
            if (paired) {                                                                          \
                put_pairs_##suffix(plus + 2 * i, VECTOR(add_pd)(sc, cs), VECTOR(sub_pd)(cc, ss));  \
                put_pairs_##suffix(minus + 2 * i, VECTOR(sub_pd)(sc, cs), VECTOR(add_pd)(cc, ss)); \
            } else {                                                                               \
                put_##suffix(plus + i, VECTOR(add_pd)(sc, cs));                                    \
                put_##suffix(plus + n + i, VECTOR(sub_pd)(cc, ss));                                \
                put_##suffix(minus + i, VECTOR(sub_pd)(sc, cs));                                   \
                put_##suffix(minus + n + i, VECTOR(add_pd)(cc, ss));                               \
            }                                                                                      \
        }                                                                                          \
    }
DEFINE_STREAM_ROTATE(float, f)
DEFINE_STREAM_ROTATE(double, d)

/* The next lines of x are asked for early: the stores keep the hardware from seeing it coming. */
#define DEFINE_STREAM_ADD(real, vector, suffix)                                                    \
    static inline void stream_add_##real(real *out, const real *x, const real *row, real scale,    \
                                         ptrdiff_t j, ptrdiff_t end) {                             \
        vector factor = VECTOR(set1_##suffix)(scale);                                              \
        for (; j < end; j += (ptrdiff_t)(sizeof(vector) / sizeof(real))) {                         \
            _mm_prefetch((const char *)(x + j) + 4096, _MM_HINT_T0);                               \
            vector scaled = VECTOR(mul_##suffix)(VECTOR(loadu_##suffix)(x + j), factor);           \
            VECTOR(stream_##suffix)                                                                \
            (out + j, VECTOR(add_##suffix)(scaled, VECTOR(loadu_##suffix)(row + j)));              \
        }                                                                                          \
    }
DEFINE_STREAM_ADD(float, floats, ps)
DEFINE_STREAM_ADD(double, doubles, pd)

static inline void stream_fence(void) { _mm_sfence(); }

#else

static inline ptrdiff_t aligned_range(const void *to, ptrdiff_t size, ptrdiff_t count,
                                      ptrdiff_t *end) {
    return *end = count;
}
#define stream_rotate_float(plus, minus, anchor, offset, n, paired, i, end)
#define stream_rotate_double(plus, minus, anchor, offset, n, paired, i, end)
#define stream_add_float(out, x, row, scale, j, end)
#define stream_add_double(out, x, row, scale, j, end)
#define stream_fence()

#endif
