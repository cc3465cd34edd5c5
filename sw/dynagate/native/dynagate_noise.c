/* Random numbers from a counter, and straight lines between them. */
#include "dynagate_philox.h"
#include <stdint.h>

typedef uint64_t words __attribute__((vector_size(64)));
enum { LANES = 8 };

/* Numbers of LANES counts from `first` on: between -131070 and 131070, of mean 0. */
static void numbers_of(int32_t *to, uint32_t first, uint32_t seed, uint32_t draw) {
    words a = {0, 1, 2, 3, 4, 5, 6, 7}, b = (words){0} + draw, key = (words){0} + seed;
    a = (a + first) & 0xFFFFFFFFu;
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

/* Torques (samples, size) about a mean (size): entry e is on the line between numbers here[e] and next[e] of its sample,
 * which has `row` of them, with the parts left[e] and right[e]. */
#define LINES(real, name)                                                                                              \
    void name(real *restrict to, const int32_t *restrict numbers, const real *mean, const int32_t *here,              \
              const int32_t *next, const real *left, const real *right, long samples, long row, long size) {           \
        for (long s = 0; s < samples; s++, to += size, numbers += row)                                                 \
            for (long e = 0; e < size; e++)                                                                            \
                to[e] = mean[e] + (left[e] * (real)numbers[here[e]] + right[e] * (real)numbers[next[e]]);              \
    }
LINES(float, dynagate_lines_f32)
LINES(double, dynagate_lines_f64)
