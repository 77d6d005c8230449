/* Which instruction sets beyond the baseline this processor runs.
 *
 * The sets are those of the builds in CMakeLists.txt: avx2 stands for AVX2, FMA and F16C, avx512
 * for these and AVX-512 F, BW, DQ and VL. The operating system must save the wide registers too,
 * which both ways to ask take into account.
 */
#pragma once

#if defined(_MSC_VER) && defined(_M_X64)

#include <windows.h>
static int cpu_has_avx2(void) { return IsProcessorFeaturePresent(40); }
static int cpu_has_avx512(void) { return IsProcessorFeaturePresent(41); }

#elif defined(__GNUC__) && defined(__x86_64__)

#include <cpuid.h>
static int cpu_has_avx2(void) {
    unsigned a, b, c = 0, d; /* c: F16C, which not every compiler knows by name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
           && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static int cpu_has_avx512(void) {
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#else

static int cpu_has_avx2(void) { return 0; }
static int cpu_has_avx512(void) { return 0; }

#endif
