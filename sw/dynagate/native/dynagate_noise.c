/* Random numbers from a counter: Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", 2011; and straight lines between them. */
#include <stdint.h>

#define LANES 16

/* Two numbers of each of LANES blocks from `first` on. */
static void blocks_of(int32_t *to, uint64_t first, uint64_t seed, uint64_t draw) {
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES];
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int j = 0; j < LANES; j++) {
        a[j] = (uint32_t)(first + (uint64_t)j);
        b[j] = (uint32_t)((first + (uint64_t)j) >> 32);
        c[j] = (uint32_t)draw;
        d[j] = (uint32_t)(draw >> 32);
    }
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u)
        for (int j = 0; j < LANES; j++) {
            const uint64_t left = (uint64_t)a[j] * 0xD2511F53u, right = (uint64_t)c[j] * 0xCD9E8D57u;
            a[j] = (uint32_t)(right >> 32) ^ b[j] ^ key0;
            b[j] = (uint32_t)right;
            c[j] = (uint32_t)(left >> 32) ^ d[j] ^ key1;
            d[j] = (uint32_t)left;
        }
    for (int j = 0; j < LANES; j++) {
        to[2 * j] = (int32_t)((a[j] >> 16) + (a[j] & 0xFFFFu) + (b[j] >> 16) + (b[j] & 0xFFFFu)) - 131070;
        to[2 * j + 1] = (int32_t)((c[j] >> 16) + (c[j] & 0xFFFFu) + (d[j] >> 16) + (d[j] & 0xFFFFu)) - 131070;
    }
}

/* Numbers 0 to count - 1 of a draw: between -131070 and 131070, of mean 0. */
void dynagate_noise(int32_t *to, long count, uint64_t seed, uint64_t draw) {
    long i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) blocks_of(to + i, (uint64_t)i / 2, seed, draw);
    if (i < count) {
        int32_t rest[2 * LANES];
        blocks_of(rest, (uint64_t)i / 2, seed, draw);
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
