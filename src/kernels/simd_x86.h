/* The operations of simd.h in intrinsics, of the widest instruction set that is compiled for:
 * AVX-512 (F and DQ), AVX or SSE2. */
#pragma once

#include <stdint.h>

#if defined(__AVX512F__) && defined(__AVX512DQ__)

#include <immintrin.h>
#define LANES 8
#define VECTOR(op) _mm512_##op
typedef __m512d doubles;
typedef __m512 floats;

static ALWAYS_INLINE floats x86_to_floats(doubles a, doubles b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a)), _mm512_cvtpd_ps(b), 1);
}

static ALWAYS_INLINE floats x86_to_floats_interleaved(doubles a, doubles b) {
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512 first = _mm512_castps256_ps512(_mm512_cvtpd_ps(a));
    __m512 second = _mm512_castps256_ps512(_mm512_cvtpd_ps(b));
    return _mm512_permutex2var_ps(first, order, second);
}

static ALWAYS_INLINE void x86_interleave_doubles(doubles *a, doubles *b) {
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    doubles first = _mm512_permutex2var_pd(*a, low, *b);
    *b = _mm512_permutex2var_pd(*a, high, *b);
    *a = first;
}

static ALWAYS_INLINE floats x86_load_floats_twice(const float *from) {
    const __m512i order = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(order, _mm512_castps256_ps512(_mm256_loadu_ps(from)));
}

static ALWAYS_INLINE floats x86_sub_add_floats(floats a, floats b) {
    return _mm512_mask_sub_ps(_mm512_add_ps(a, b), 0x5555, a, b);
}

static ALWAYS_INLINE floats x86_load_bfloat16(const uint16_t *from) {
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

static ALWAYS_INLINE void x86_store_bfloat16(uint16_t *to, floats v) {
    __m512i bits = _mm512_castps_si512(v);
    __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), last);
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

#define load_floats_twice x86_load_floats_twice
#define swap_floats(v) _mm512_permute_ps(v, 0xb1)
#define sub_add_floats x86_sub_add_floats
#define load_bfloat16 x86_load_bfloat16
#define store_bfloat16 x86_store_bfloat16
#define load_float16(from) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from)))
#define store_float16(to, v)                                                                       \
    _mm256_storeu_si256((__m256i *)(to), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))

#elif defined(__AVX__)

#include <immintrin.h>
#define LANES 4
#define VECTOR(op) _mm256_##op
typedef __m256d doubles;
typedef __m256 floats;

static ALWAYS_INLINE floats x86_to_floats(doubles a, doubles b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a)), _mm256_cvtpd_ps(b), 1);
}

static ALWAYS_INLINE floats x86_to_floats_interleaved(doubles a, doubles b) {
    __m128 first = _mm256_cvtpd_ps(a), second = _mm256_cvtpd_ps(b);
    __m256 low = _mm256_castps128_ps256(_mm_unpacklo_ps(first, second));
    return _mm256_insertf128_ps(low, _mm_unpackhi_ps(first, second), 1);
}

static ALWAYS_INLINE void x86_interleave_doubles(doubles *a, doubles *b) {
    doubles low = _mm256_unpacklo_pd(*a, *b), high = _mm256_unpackhi_pd(*a, *b);
    *a = _mm256_permute2f128_pd(low, high, 0x20);
    *b = _mm256_permute2f128_pd(low, high, 0x31);
}

static ALWAYS_INLINE floats x86_load_floats_twice(const float *from) {
    const __m256i order = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)from), order);
}

#define load_floats_twice x86_load_floats_twice
#define swap_floats(v) _mm256_permute_ps(v, 0xb1)
#define sub_add_floats _mm256_addsub_ps

#if defined(__AVX2__)
static ALWAYS_INLINE floats x86_load_bfloat16(const uint16_t *from) {
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

static ALWAYS_INLINE void x86_store_bfloat16(uint16_t *to, floats v) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), last);
    bits = _mm256_srli_epi32(bits, 16);
    _mm_storeu_si128((__m128i *)to, _mm_packus_epi32(_mm256_castsi256_si128(bits),
                                                     _mm256_extracti128_si256(bits, 1)));
}

#define load_bfloat16 x86_load_bfloat16
#define store_bfloat16 x86_store_bfloat16
#endif

#if defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
#define load_float16(from) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from)))
#define store_float16(to, v)                                                                       \
    _mm_storeu_si128((__m128i *)(to), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#endif

#else

#include <emmintrin.h>
#define LANES 2
#define VECTOR(op) _mm_##op
typedef __m128d doubles;
typedef __m128 floats;

static ALWAYS_INLINE floats x86_to_floats(doubles a, doubles b) {
    return _mm_movelh_ps(_mm_cvtpd_ps(a), _mm_cvtpd_ps(b));
}

static ALWAYS_INLINE floats x86_to_floats_interleaved(doubles a, doubles b) {
    return _mm_unpacklo_ps(_mm_cvtpd_ps(a), _mm_cvtpd_ps(b));
}

static ALWAYS_INLINE void x86_interleave_doubles(doubles *a, doubles *b) {
    doubles first = _mm_unpacklo_pd(*a, *b);
    *b = _mm_unpackhi_pd(*a, *b);
    *a = first;
}

#endif

/* In the order of the source: a compiler would put the stores of two lines in turn, and lines that
 * fill up one after the other are faster. */
static ALWAYS_INLINE void x86_stream_floats(float *to, floats v) {
    VECTOR(stream_ps)(to, v);
    KEEP_ORDER;
}

static ALWAYS_INLINE void x86_stream_doubles(double *to, doubles v) {
    VECTOR(stream_pd)(to, v);
    KEEP_ORDER;
}

#define load_floats VECTOR(loadu_ps)
#define load_doubles VECTOR(loadu_pd)
#define store_floats VECTOR(storeu_ps)
#define store_doubles VECTOR(storeu_pd)
#define HAS_STREAM 1
#define stream_floats x86_stream_floats
#define stream_doubles x86_stream_doubles
#define set1_floats VECTOR(set1_ps)
#define set1_doubles VECTOR(set1_pd)
#define add_floats VECTOR(add_ps)
#define add_doubles VECTOR(add_pd)
#define sub_floats VECTOR(sub_ps)
#define sub_doubles VECTOR(sub_pd)
#define mul_floats VECTOR(mul_ps)
#define mul_doubles VECTOR(mul_pd)
#define to_floats x86_to_floats
#define to_floats_interleaved x86_to_floats_interleaved
#define interleave_doubles x86_interleave_doubles
#define prefetch(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#define fence _mm_sfence
