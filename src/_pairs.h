/* Pairs of columns turned by sines and cosines: both are read before either is written, so out may
 * be x. In `split` the columns of a pair lie n apart, in `paired` beside each other. */
#define DEFINE_PAIRS(real)                                                                         \
    static void turn_split_##real(real *out, const real *x, const real *sines,                     \
                                  const real *cosines, ptrdiff_t n) {                              \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            real a = x[i], b = x[n + i];                                                           \
            out[i] = a * cosines[i] - b * sines[i];                                                \
            out[n + i] = b * cosines[i] + a * sines[i];                                            \
        }                                                                                          \
    }                                                                                              \
    static void turn_paired_##real(real *out, const real *x, const real *sines,                    \
                                   const real *cosines, ptrdiff_t n) {                             \
        NO_DEPENDENCE                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            real a = x[2 * i], b = x[2 * i + 1];                                                   \
            out[2 * i] = a * cosines[i] - b * sines[i];                                            \
            out[2 * i + 1] = b * cosines[i] + a * sines[i];                                        \
        }                                                                                          \
    }
DEFINE_PAIRS(float)
DEFINE_PAIRS(double)

/* Each value in both columns of its pair. */
#define DEFINE_REPEAT(bits)                                                                        \
    static void repeat_paired_##bits(uint##bits##_t *restrict out,                                 \
                                     const uint##bits##_t *restrict values, ptrdiff_t n) {         \
        for (ptrdiff_t i = 0; i < n; i++) out[2 * i] = out[2 * i + 1] = values[i];                 \
    }
DEFINE_REPEAT(16)
DEFINE_REPEAT(32)
DEFINE_REPEAT(64)
