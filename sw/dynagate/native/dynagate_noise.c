/* Random numbers from a counter, and straight lines between them. */
#include "dynagate_philox.h"
#include <stdint.h>

#ifdef __AVX512DQ__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { CHAINS = 8, BLOCK = LANES * CHAINS, WIDE = 8 };
typedef uint64_t words __attribute__((vector_size(8 * LANES)));
typedef int32_t lanes_i32 __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t wide_i32 __attribute__((vector_size(4 * WIDE), aligned(4)));

/* Numbers of BLOCK counts from `first` on: between -131070 and 131070, of mean 0. A round waits for the one before it, so
 * CHAINS vectors go side by side. */
static void numbers_of(int32_t *to, uint32_t first, uint32_t seed, uint32_t draw) {
    words a[CHAINS], b[CHAINS], key = (words){0} + seed;
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++) {
        for (int j = 0; j < LANES; j++) a[i][j] = first + (uint32_t)(i * LANES + j);
        b[i] = (words){0} + draw;
    }
    for (int round = 0; round < DG_ROUNDS; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) DG_ROUND(words, a[i], b[i], key)
        DG_NEXT_KEY(key)
    }
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++)
        *(lanes_i32 *)(to + i * LANES) = __builtin_convertvector(DG_HALVES(a[i], b[i]), lanes_i32) - DG_HALVES_MEAN;
}

/* Numbers 0 to count - 1 of a draw. */
void dynagate_noise(int32_t *to, long count, uint32_t seed, uint32_t draw) {
    long i = 0;
    for (; i + BLOCK <= count; i += BLOCK) numbers_of(to + i, (uint32_t)i, seed, draw);
    if (i < count) {
        int32_t rest[BLOCK];
        numbers_of(rest, (uint32_t)i, seed, draw);
        for (int j = 0; i < count; i++, j++) to[i] = rest[j];
    }
}

/* Torques (samples, knots, width) about a mean (knots, width): knot k of a sample, which has `row` numbers, is on the line
 * between those at nodes here[k] and next[k], with the parts left[k] and right[k], (knots, width). The last samples are
 * computed one by one. Of the others WIDE entries are written at once, also beyond a knot, where those of the next one or
 * of the next sample follow: the last entries of knots come before the first ones. */
#define LINES(real, name)                                                                                              \
    typedef real wide_##name __attribute__((vector_size(WIDE * sizeof(real)), aligned(sizeof(real))));                 \
    static void wide_lines_##name(real *to, const int32_t *numbers, const real *mean, const int32_t *here,             \
                                  const int32_t *next, const real *left, const real *right, long knots, long width) {  \
        wide_##name x = {0}, y = {0};                                                                                  \
        for (long j = (width - 1) / WIDE * WIDE; j >= 0; j -= WIDE)                                                    \
            for (long k = 0, e = j; k < knots; k++, e += width) {                                                      \
                if (!k || here[k] != here[k - 1]) {                                                                    \
                    x = __builtin_convertvector(*(const wide_i32 *)(numbers + here[k] * width + j), wide_##name);      \
                    y = __builtin_convertvector(*(const wide_i32 *)(numbers + next[k] * width + j), wide_##name);      \
                }                                                                                                      \
                const wide_##name *l = (const wide_##name *)(left + e), *r = (const wide_##name *)(right + e);         \
                *(wide_##name *)(to + e) = *(const wide_##name *)(mean + e) + (*l * x + *r * y);                       \
            }                                                                                                          \
    }                                                                                                                  \
    /* mean, left and right have WIDE entries more, of which nothing depends. */                                       \
    void name(real *to, const int32_t *numbers, const real *mean, const int32_t *here, const int32_t *next,           \
              const real *left, const real *right, long samples, long row, long knots, long width) {                   \
        const long size = knots * width, whole = samples - 1 - WIDE / row;                                             \
        long s = 0;                                                                                                    \
        for (; s < whole; s++, to += size, numbers += row)                                                             \
            wide_lines_##name(to, numbers, mean, here, next, left, right, knots, width);                               \
        for (; s < samples; s++, to += size, numbers += row)                                                           \
            for (long e = 0; e < size; e++) {                                                                          \
                const long k = e / width, j = e % width;                                                               \
                const real x = (real)numbers[here[k] * width + j], y = (real)numbers[next[k] * width + j];             \
                to[e] = mean[e] + (left[e] * x + right[e] * y);                                                        \
            }                                                                                                          \
    }
LINES(float, dynagate_lines_f32)
LINES(double, dynagate_lines_f64)
