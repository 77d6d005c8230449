/* Rows in the widest vectors of the build, stores past the caches, the exact product of doubles.
 *
 * The loops below do what `rotate` and `place` of _rows.pxi and `add_scaled` of _runs.pxi do,
 * operation by operation, for as many columns as fill whole vectors, and say which; the rest is
 * done there. A compiler without these instructions is told that there are none.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__FMA__)
/* a * b - product, exactly: the same double as Dekker's where nothing underflows. */
#define HAS_FMA 1
#define PRODUCT_ERROR(a, b, product) __builtin_fma(a, b, -(product))
#else
#define HAS_FMA 0
#define PRODUCT_ERROR(a, b, product) 0.0
#endif

/* A row to write, what it is added to (NULL: nothing), and what will be read after that. */
typedef struct {
    char *out;
    const char *x;
    const char *next;
} Row;

/* Columns, of n pairs or of whatever is counted. */
typedef struct {
    ptrdiff_t first, end;
} Range;

#define LINE 64 /* bytes of a cache line */

/* VECTOR: an operation; LANES: doubles of a vector, half as many as floats. pairs_f and join_f make
 * a vector of floats from two of doubles, beside each other or one after the other; pairs_d makes
 * two vectors of doubles. */
#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 8
#define VECTOR(op) _mm512_##op
typedef __m512d doubles;
typedef __m512 floats;
static inline floats pairs_f(doubles s, doubles c) {
    const __m512i pairs =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512 sines = _mm512_castps256_ps512(_mm512_cvtpd_ps(s));
    __m512 cosines = _mm512_castps256_ps512(_mm512_cvtpd_ps(c));
    return _mm512_permutex2var_ps(sines, pairs, cosines);
}
static inline floats join_f(doubles a, doubles b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a)), _mm512_cvtpd_ps(b), 1);
}
static inline void pairs_d(doubles *s, doubles *c) {
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    doubles first = _mm512_permutex2var_pd(*s, low, *c);
    *c = _mm512_permutex2var_pd(*s, high, *c);
    *s = first;
}
#elif defined(__AVX__)
#include <immintrin.h>
#define LANES 4
#define VECTOR(op) _mm256_##op
typedef __m256d doubles;
typedef __m256 floats;
static inline floats pairs_f(doubles s, doubles c) {
    __m128 sines = _mm256_cvtpd_ps(s), cosines = _mm256_cvtpd_ps(c);
    __m256 low = _mm256_castps128_ps256(_mm_unpacklo_ps(sines, cosines));
    return _mm256_insertf128_ps(low, _mm_unpackhi_ps(sines, cosines), 1);
}
static inline floats join_f(doubles a, doubles b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a)), _mm256_cvtpd_ps(b), 1);
}
static inline void pairs_d(doubles *s, doubles *c) {
    doubles low = _mm256_unpacklo_pd(*s, *c), high = _mm256_unpackhi_pd(*s, *c);
    *s = _mm256_permute2f128_pd(low, high, 0x20);
    *c = _mm256_permute2f128_pd(low, high, 0x31);
}
#elif defined(__x86_64__) || defined(_M_X64)
#include <emmintrin.h>
#define LANES 2
#define VECTOR(op) _mm_##op
typedef __m128d doubles;
typedef __m128 floats;
static inline floats pairs_f(doubles s, doubles c) {
    return _mm_unpacklo_ps(_mm_cvtpd_ps(s), _mm_cvtpd_ps(c));
}
static inline floats join_f(doubles a, doubles b) {
    return _mm_movelh_ps(_mm_cvtpd_ps(a), _mm_cvtpd_ps(b));
}
static inline void pairs_d(doubles *s, doubles *c) {
    doubles first = _mm_unpacklo_pd(*s, *c);
    *c = _mm_unpackhi_pd(*s, *c);
    *s = first;
}
#endif

#if defined(LANES)

#if defined(_MSC_VER)
#define ALWAYS_INLINE __forceinline
#else
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/* A vector of a row's elements from j on. What is read next is asked for early where stores go past
 * the caches: the processor does not see it coming then. */
#define DEFINE_PUT(real, vector, suffix)                                                           \
    static ALWAYS_INLINE void put_##real(const Row *row, ptrdiff_t j, vector v, vector scale,      \
                                         int adds, int stream) {                                   \
        real *to = (real *)row->out + j;                                                           \
        if (adds) {                                                                                \
            vector x = VECTOR(loadu_##suffix)((const real *)row->x + j);                           \
            if (stream) _mm_prefetch((const char *)((const real *)row->next + j), _MM_HINT_T0);    \
            v = VECTOR(add_##suffix)(VECTOR(mul_##suffix)(x, scale), v);                           \
        }                                                                                          \
        if (stream)                                                                                \
            VECTOR(stream_##suffix)(to, v);                                                        \
        else                                                                                       \
            VECTOR(storeu_##suffix)(to, v);                                                        \
    }
DEFINE_PUT(float, floats, ps)
DEFINE_PUT(double, doubles, pd)

/* Sines and cosines of 2 * LANES frequencies from i on. */
static ALWAYS_INLINE void write_float(const Row *row, doubles *s, doubles *c, ptrdiff_t n,
                                      ptrdiff_t i, floats scale, int paired, int adds, int stream) {
    if (paired) {
        put_float(row, 2 * i, pairs_f(s[0], c[0]), scale, adds, stream);
        put_float(row, 2 * i + 2 * LANES, pairs_f(s[1], c[1]), scale, adds, stream);
    } else {
        put_float(row, i, join_f(s[0], s[1]), scale, adds, stream);
        put_float(row, n + i, join_f(c[0], c[1]), scale, adds, stream);
    }
}

static ALWAYS_INLINE void write_double(const Row *row, doubles *s, doubles *c, ptrdiff_t n,
                                       ptrdiff_t i, doubles scale, int paired, int adds,
                                       int stream) {
    for (int half = 0; half < 2; half++, i += LANES) {
        if (paired) pairs_d(&s[half], &c[half]);
        put_double(row, paired ? 2 * i : i, s[half], scale, adds, stream);
        put_double(row, paired ? 2 * i + LANES : n + i, c[half], scale, adds, stream);
    }
}

/* What is written: an anchor's row, the row `offset` after it, the one before it, or both. */
enum { PLACE, PLUS, MINUS, BOTH };

#define DEFINE_TURN(real, vector, suffix)                                                          \
    static ALWAYS_INLINE void turn_##real##_as(                                                    \
        const Row *upper, const Row *lower, const double *anchor, const double *offset,            \
        ptrdiff_t n, real factor, Range range, int rows, int paired, int adds, int stream) {       \
        Row plus = *(rows == MINUS ? lower : upper), minus = *(rows < MINUS ? upper : lower);      \
        vector scale = VECTOR(set1_##suffix)(factor);                                              \
        for (ptrdiff_t i = range.first; i < range.end; i += 2 * LANES) {                           \
            doubles s[2], c[2], t[2], d[2];                                                        \
            for (int half = 0; half < 2; half++) {                                                 \
                ptrdiff_t at = i + half * LANES;                                                   \
                doubles sine = VECTOR(loadu_pd)(anchor + at);                                      \
                doubles cosine = VECTOR(loadu_pd)(anchor + n + at);                                \
                if (rows == PLACE) { /* most often the table's, whose next row follows */          \
                    _mm_prefetch((const char *)(anchor + 2 * n + at), _MM_HINT_T0);                \
                    _mm_prefetch((const char *)(anchor + 3 * n + at), _MM_HINT_T0);                \
                    s[half] = sine;                                                                \
                    c[half] = cosine;                                                              \
                    continue;                                                                      \
                }                                                                                  \
                doubles u = VECTOR(loadu_pd)(offset + at), v = VECTOR(loadu_pd)(offset + n + at);  \
                doubles sc = VECTOR(mul_pd)(sine, v), cs = VECTOR(mul_pd)(cosine, u);              \
                doubles cc = VECTOR(mul_pd)(cosine, v), ss = VECTOR(mul_pd)(sine, u);              \
                s[half] = VECTOR(add_pd)(sc, cs);                                                  \
                c[half] = VECTOR(sub_pd)(cc, ss);                                                  \
                t[half] = VECTOR(sub_pd)(sc, cs);                                                  \
                d[half] = VECTOR(add_pd)(cc, ss);                                                  \
            }                                                                                      \
            if (rows != MINUS) write_##real(&plus, s, c, n, i, scale, paired, adds, stream);       \
            if (rows >= MINUS) write_##real(&minus, t, d, n, i, scale, paired, adds, stream);      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static Range turn_##real(const Row *plus, const Row *minus, const double *anchor,              \
                             const double *offset, ptrdiff_t n, real scale, int paired,            \
                             int stream) {                                                         \
        const Row *row = plus ? plus : minus;                                                      \
        int rows = !offset ? PLACE : !minus ? PLUS : !plus ? MINUS : BOTH;                         \
        int adds = row->x != NULL;                                                                 \
        uintptr_t to = (uintptr_t)row->out, unit = sizeof(real) << paired, before = -to % LINE;    \
        uintptr_t other = rows == BOTH ? (uintptr_t)minus->out : to;                               \
        Range range = {0, n};                                                                      \
        /* every store of a vector must be aligned to it */                                        \
        stream = stream && !((to ^ other) % LINE || before & (unit - 1)                            \
                             || (!paired && n * sizeof(real) % LINE));                             \
        if (stream) range.first = (ptrdiff_t)(paired ? before / (2 * sizeof(real))                 \
                                                     : before / sizeof(real));                     \
        if (range.first > n) range.first = n;                                                      \
        range.end -= (n - range.first) % (2 * LANES);                                              \
        switch (((rows * 2 + paired) * 2 + adds) * 2 + stream) {                                   \
            CASES(real, PLACE) CASES(real, PLUS) CASES(real, MINUS) CASES(real, BOTH)              \
        }                                                                                          \
        return range;                                                                              \
    }
#define CASES(real, rows)                                                                          \
    CASE(real, rows, 0, 0, 0) CASE(real, rows, 0, 0, 1)                                            \
    CASE(real, rows, 0, 1, 0) CASE(real, rows, 0, 1, 1)                                            \
    CASE(real, rows, 1, 0, 0) CASE(real, rows, 1, 0, 1)                                            \
    CASE(real, rows, 1, 1, 0) CASE(real, rows, 1, 1, 1)
#define CASE(real, rows, paired, adds, stream)                                                     \
    case ((rows * 2 + paired) * 2 + adds) * 2 + stream:                                            \
        turn_##real##_as(plus, minus, anchor, offset, n, scale, range, rows, paired, adds,         \
                         stream);                                                                  \
        break;
DEFINE_TURN(float, floats, ps)
DEFINE_TURN(double, doubles, pd)

/* out = x * scale + row past the caches, for contiguous elements; `next` is read after x. */
#define DEFINE_STREAM_ADD(real, vector, suffix)                                                    \
    static Range stream_add_##real(real *out, const real *x, const char *next, const real *row,    \
                                   real factor, ptrdiff_t count) {                                 \
        vector scale = VECTOR(set1_##suffix)(factor);                                              \
        ptrdiff_t step = sizeof(vector) / sizeof(real);                                            \
        Row target = {(char *)out, (const char *)x, next};                                         \
        Range range = {(ptrdiff_t)(-(uintptr_t)out % LINE / sizeof(real)), count};                 \
        if (range.first > count) range.first = count;                                              \
        range.end -= (count - range.first) % step;                                                 \
        for (ptrdiff_t j = range.first; j < range.end; j += step)                                  \
            put_##real(&target, j, VECTOR(loadu_##suffix)(row + j), scale, 1, 1);                  \
        return range;                                                                              \
    }
DEFINE_STREAM_ADD(float, floats, ps)
DEFINE_STREAM_ADD(double, doubles, pd)

/* A row past the caches; `next` will be read as it was made. */
static void stream_copy(char *out, const char *row, const char *next, ptrdiff_t size) {
    ptrdiff_t j = (ptrdiff_t)(-(uintptr_t)out % LINE);
    if (j > size) j = size;
    memcpy(out, row, (size_t)j);
    for (; j + (ptrdiff_t)sizeof(floats) <= size; j += sizeof(floats)) {
        _mm_prefetch(next + j, _MM_HINT_T0);
        VECTOR(stream_ps)((float *)(out + j), VECTOR(loadu_ps)((const float *)(row + j)));
    }
    memcpy(out + j, row + j, (size_t)(size - j));
}

static inline void stream_fence(void) { _mm_sfence(); }

#else

static const Range NONE = {0, 0};
#define turn_float(plus, minus, anchor, offset, n, scale, paired, stream) NONE
#define turn_double(plus, minus, anchor, offset, n, scale, paired, stream) NONE
#define stream_add_float(out, x, next, row, scale, count) NONE
#define stream_add_double(out, x, next, row, scale, count) NONE
#define stream_copy(out, row, next, size) memcpy(out, row, (size_t)(size))
#define stream_fence()

#endif

/* Before a loop whose elements do not depend on one another, though out may be x. */
#if defined(_MSC_VER)
#define NO_DEPENDENCE __pragma(loop(ivdep))
#elif defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

/* out = x * scale; out may be x. */
#define DEFINE_SCALE(real)                                                                         \
    static inline void scale_##real(real *out, const real *x, real scale, ptrdiff_t size) {        \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t j = 0; j < size; j++) out[j] = x[j] * scale;                                \
    }
DEFINE_SCALE(float)
DEFINE_SCALE(double)
