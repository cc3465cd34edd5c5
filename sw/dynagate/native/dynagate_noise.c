/* Random numbers from a counter, and straight lines between them. */
#include "dynagate_philox.h"
#include <stdint.h>

enum { LANES = 8, WIDE = 8 };
typedef uint64_t words __attribute__((vector_size(8 * LANES)));
typedef int32_t wide_i32 __attribute__((vector_size(4 * WIDE), aligned(4)));

/* Numbers of LANES counts from `first` on: between -131070 and 131070, of mean 0. */
static void numbers_of(int32_t *to, uint32_t first, uint32_t seed, uint32_t draw) {
    words a, b = (words){0} + draw, key = (words){0} + seed;
    for (int j = 0; j < LANES; j++) a[j] = first + (uint32_t)j;
    DG_PHILOX(words, a, b, key)
    const words halves = DG_HALVES(a, b);
    for (int j = 0; j < LANES; j++) to[j] = (int32_t)halves[j] - DG_HALVES_MEAN;
}

/* Numbers 0 to count - 1 of a draw. */
void dynagate_noise(int32_t *to, long count, uint32_t seed, uint32_t draw) {
    long i = 0;
    for (; i + LANES <= count; i += LANES) numbers_of(to + i, (uint32_t)i, seed, draw);
    if (i < count) {
        int32_t rest[LANES];
        numbers_of(rest, (uint32_t)i, seed, draw);
        for (int j = 0; i < count; i++, j++) to[i] = rest[j];
    }
}

/* Torques (samples, knots, width) about a mean (knots, width): knot k of a sample, which has `row` numbers, is on the line
 * between those at nodes here[k] and next[k], with the parts left[k] and right[k], (knots, width). WIDE entries are
 * written at once, also beyond a knot, where those of the next one or of the next sample follow. */
#define LINES(real, name)                                                                                              \
    typedef real wide_##name __attribute__((vector_size(WIDE * sizeof(real)), aligned(sizeof(real))));                 \
    void name(real *to, const int32_t *numbers, const real *mean, const int32_t *here, const int32_t *next,           \
              const real *left, const real *right, long samples, long row, long knots, long width) {                   \
        const long size = knots * width, inner = samples - 1 - WIDE / row;                                             \
        for (long s = 0; s < samples; s++, to += size, numbers += row)                                                 \
            for (long k = 0; k < knots; k++) {                                                                         \
                const int32_t *a = numbers + here[k] * width, *b = numbers + next[k] * width;                          \
                for (long j = 0, e = k * width; j < width; j += WIDE, e += WIDE) {                                     \
                    if (s < inner && e + WIDE <= size) {                                                               \
                        const wide_##name x = __builtin_convertvector(*(const wide_i32 *)(a + j), wide_##name);        \
                        const wide_##name y = __builtin_convertvector(*(const wide_i32 *)(b + j), wide_##name);        \
                        const wide_##name *l = (const wide_##name *)(left + e), *r = (const wide_##name *)(right + e); \
                        *(wide_##name *)(to + e) = *(const wide_##name *)(mean + e) + (*l * x + *r * y);               \
                    } else                                                                                             \
                        for (long i = 0; i < WIDE && j + i < width; i++)                                               \
                            to[e + i] = mean[e + i] + (left[e + i] * (real)a[j + i] + right[e + i] * (real)b[j + i]);  \
                }                                                                                                      \
            }                                                                                                          \
    }
LINES(float, dynagate_lines_f32)
LINES(double, dynagate_lines_f64)
