/* Random numbers from a counter, straight lines between them, and the mean of such lines by the costs of rollouts. */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* A product of words of 32 bits is one instruction, which compilers do not see. */
#ifdef __AVX512F__
#include <immintrin.h>
#define DG_PRODUCT(a) ((words)_mm512_mul_epu32((__m512i)(a), _mm512_set1_epi64(DG_FACTOR)))
enum { LANES = 8 };
#elif defined(__AVX2__)
#include <immintrin.h>
#define DG_PRODUCT(a) ((words)_mm256_mul_epu32((__m256i)(a), _mm256_set1_epi64x(DG_FACTOR)))
enum { LANES = 4 };
#else
enum { LANES = 4 };
#endif
#include "dynagate_philox.h"
enum { CHAINS = 8, BLOCK = LANES * CHAINS, WIDE = 8, ABREAST = 4 };
typedef uint64_t words __attribute__((vector_size(8 * LANES)));
typedef int32_t lanes_i32 __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t wide_i32 __attribute__((vector_size(4 * WIDE), aligned(4)));

#ifdef DYNAGATE_DOUBLE
typedef double real;
#else
typedef float real;
#endif
typedef real wide __attribute__((vector_size(WIDE * sizeof(real)), aligned(sizeof(real))));

/* Numbers of BLOCK counts from `first` on: between -131070 and 131070, of mean 0. A round waits for the one before it, so
 * CHAINS vectors go side by side. */
static void numbers_of(int32_t *to, uint32_t first, uint32_t seed, uint32_t draw) {
    words a[CHAINS], b[CHAINS], key = (words){0} + seed, lane;
    for (int j = 0; j < LANES; j++) lane[j] = (uint64_t)j;
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++) a[i] = lane + (first + (uint32_t)(i * LANES)), b[i] = (words){0} + draw;
    for (int round = 0; round < DG_ROUNDS; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) DG_ROUND(words, a[i], b[i], key)
        DG_NEXT_KEY(key)
    }
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++)
        *(lanes_i32 *)(to + i * LANES) = __builtin_convertvector(DG_HALVES(a[i], b[i]), lanes_i32) - DG_HALVES_MEAN;
}

/* Numbers first to first + count - 1 of a draw. */
static void numbers_from(int32_t *to, uint32_t first, long count, uint32_t seed, uint32_t draw) {
    long i = 0;
    for (; i + BLOCK <= count; i += BLOCK) numbers_of(to + i, first + (uint32_t)i, seed, draw);
    if (i < count) {
        int32_t rest[BLOCK];
        numbers_of(rest, first + (uint32_t)i, seed, draw);
        memcpy(to + i, rest, (size_t)(count - i) * sizeof *to);
    }
}

/* Numbers 0 to count - 1 of a draw. */
void dynagate_noise(int32_t *to, long count, uint32_t seed, uint32_t draw) { numbers_from(to, 0, count, seed, draw); }

/* Straight lines over knots of `width` entries: knot k is on the line between the numbers of nodes here[k] and next[k],
 * with the parts left and right, (knots, width). A sample has numbers of `nodes`. low, high (knots, width): bounds, or
 * NULL. All arrays of numbers have WIDE entries more, which are read and written too, and of which nothing depends. */
typedef struct {
    long nodes, knots, width;
    const int32_t *here, *next;
    const real *left, *right, *low, *high;
} lines;

typedef int (*costs_of)(const real *const *, const long *, real *const *, const long *, long, long, long);

/* The rollouts of problems, `samples` each about a mean, with the numbers of `draw` of `seed`; the first one is the mean.
 * loop: computes a cost () of `inputs` arrays, of which number `torques` is the mean, and each sample's own for the loop.
 * in, stride: arrays of all problems, and numbers from one to the next.
 * parts, sums: of a block of SAMPLES, (blocks, 4): its least cost, and of the weights exp((least - cost) / temperature)
 * the sum, that of their squares, and that of weighted costs; (blocks, knots, width): that of weighted torques.
 * reals, numbers: room of each thread, REALS(size) and NUMBERS(row). busy: how many have theirs. */
typedef struct {
    lines lines;
    costs_of loop;
    const real *const *in;
    const long *stride;
    long inputs, torques, samples;
    uint32_t seed, draw;
    double temperature;
    double *parts;
    real *sums, *reals;
    int32_t *numbers;
    atomic_int busy;
} sampled;

enum { SAMPLES = 64 }; /* shares of threads are whole multiples of it (dynagate_pool.c) */

static long blocks_of(const sampled *s) { return (s->samples + SAMPLES - 1) / SAMPLES; }

static wide within(wide x, const real *low, const real *high) {
    const wide l = *(const wide *)low, h = *(const wide *)high;
    const __typeof__(x < l) under = x < l, over = x > h;
    const __typeof__(under) cut = ((__typeof__(under))l & under) | ((__typeof__(under))h & over);
    return (wide)(cut | ((__typeof__(under))x & ~(under | over)));
}

/* Numbers from the torques of a sample to those of the next one: WIDE at least lie between. */
static long gapped(long size) { return (size + 2 * WIDE - 1) / WIDE * WIDE; }

/* Some samples. WIDE entries are written at once, also beyond a knot, where those of the next one follow: the last entries
 * of knots come before the first ones. */
static void lines_of(lines l, real *restrict to, const int32_t *restrict numbers, const real *restrict mean) {
    const long row = l.nodes * l.width, size = gapped(l.knots * l.width);
    for (long j = (l.width - 1) / WIDE * WIDE; j >= 0; j -= WIDE)
        for (long k = 0, e = j; k < l.knots;) {
            const int32_t node = l.here[k];
            wide x[ABREAST], y[ABREAST];
#pragma GCC unroll 4
            for (int s = 0; s < ABREAST; s++) {
                const int32_t *const own = numbers + s * row + j;
                x[s] = __builtin_convertvector(*(const wide_i32 *)(own + node * l.width), wide);
                y[s] = __builtin_convertvector(*(const wide_i32 *)(own + l.next[k] * l.width), wide);
            }
            for (; k < l.knots && l.here[k] == node; k++, e += l.width) {
                const wide left = *(const wide *)(l.left + e), right = *(const wide *)(l.right + e);
                const wide about = *(const wide *)(mean + e);
#pragma GCC unroll 4
                for (int s = 0; s < ABREAST; s++) *(wide *)(to + s * size + e) = about + (left * x[s] + right * y[s]);
            }
        }
    if (l.low)
        for (int s = 0; s < ABREAST; s++, to += size)
            for (long e = 0; e < l.knots * l.width; e += WIDE) *(wide *)(to + e) = within(*(wide *)(to + e), l.low + e, l.high + e);
}

/* to (samples, gapped(knots * width)), numbers (samples, nodes, width), mean (knots, width). samples: a multiple of
 * ABREAST, or there is room for one. */
void dynagate_lines(const lines *l, real *to, const int32_t *numbers, const real *mean, long samples) {
    for (long s = 0; s < samples; s += ABREAST)
        lines_of(*l, to + s * gapped(l->knots * l->width), numbers + s * l->nodes * l->width, mean);
}

/* exp(x), 0 of what is not known and where it is less than the smallest number that has all digits. */
static double weight_of(double x) { return x >= -708.0 ? exp(x) : 0.0; }

/* Costs become weights. */
static void weigh(double temperature, real *costs, long count, double *part) {
    double least = INFINITY, total = 0.0, squares = 0.0, weighted = 0.0;
    for (long i = 0; i < count; i++)
        if (isfinite(costs[i]) && costs[i] < least) least = costs[i];
    for (long i = 0; i < count; i++) {
        const double cost = costs[i], weight = weight_of((least - cost) / temperature);
        total += weight, squares += weight * weight;
        if (weight > 0.0) weighted += weight * cost;
        costs[i] = (real)weight;
    }
    part[0] = least, part[1] = total, part[2] = squares, part[3] = weighted;
}

static void add(real *to, const real *x, real factor, long size) {
    long e = 0;
    for (; e + WIDE <= size; e += WIDE) *(wide *)(to + e) += *(const wide *)(x + e) * factor;
    for (; e < size; e++) to[e] += x[e] * factor;
}

/* Numbers that a thread has room for: of the mean, the torques and the costs of a block, whose knots have `size`; and of
 * random ones, of which a sample has `row`. */
#define REALS(size) ((SAMPLES + 1) * gapped(size) + SAMPLES)
#define NUMBERS(row) (SAMPLES * (row) + WIDE)

static void block_of(const sampled *s, long block, real *mean, int32_t *numbers) {
    const lines *l = &s->lines;
    const long size = l->knots * l->width, row = l->nodes * l->width;
    real *const torques = mean + gapped(size), *costs = torques + SAMPLES * gapped(size);
    const long problem = block / blocks_of(s), first = block % blocks_of(s) * SAMPLES;
    const long count = s->samples - first < SAMPLES ? s->samples - first : SAMPLES, one = 1;
    const real *in[s->inputs];
    long stride[s->inputs];
    for (long k = 0; k < s->inputs; k++) in[k] = s->in[k] + problem * s->stride[k], stride[k] = 0;
    memcpy(mean, in[s->torques], (size_t)size * sizeof(real));
    in[s->torques] = torques, stride[s->torques] = gapped(size);

    numbers_from(numbers, (uint32_t)((problem * s->samples + first) * row), count * row, s->seed, s->draw);
    if (!first) memset(numbers, 0, (size_t)row * sizeof(int32_t));
    dynagate_lines(l, torques, numbers, mean, count);
    s->loop(in, stride, &costs, &one, 1, 0, count);
    weigh(s->temperature, costs, count, s->parts + 4 * block);
    real *const sum = s->sums + block * size;
    memset(sum, 0, (size_t)size * sizeof(real));
    for (long i = 0; i < count; i++)
        if (costs[i] > 0) add(sum, torques + i * gapped(size), costs[i], size);
}

/* Rows begin to end: those of all problems, SAMPLES for each block of one. out[0]: `sampled`. */
int dynagate_sampled(const void *const *in, void *const *out, long begin, long end) {
    sampled *s = out[0];
    const long thread = atomic_fetch_add(&s->busy, 1);
    real *const reals = s->reals + thread * REALS(s->lines.knots * s->lines.width);
    int32_t *const numbers = s->numbers + thread * NUMBERS(s->lines.nodes * s->lines.width);
    (void)in;
    for (long block = begin / SAMPLES; block * SAMPLES < end; block++) block_of(s, block, reals, numbers);
    return 0;
}

/* Of each problem the mean torques to (problems, knots, width), within the bounds; the costs' mean, the least one, and how
 * many samples count. Where no cost is finite it has failed, and torques are the mean before. */
void dynagate_mean(const sampled *s, real *to, double *cost, double *least, double *effective, unsigned char *failed,
                   long problems) {
    const lines *l = &s->lines;
    const long size = l->knots * l->width, blocks = blocks_of(s);
    for (long p = 0; p < problems; p++, to += size) {
        const double *const parts = s->parts + 4 * p * blocks;
        double lowest = INFINITY, total = 0.0, squares = 0.0, costs = 0.0;
        for (long b = 0; b < blocks; b++) lowest = parts[4 * b] < lowest ? parts[4 * b] : lowest;
        failed[p] = isinf(lowest);
        if (failed[p]) memmove(to, s->in[s->torques] + p * s->stride[s->torques], (size_t)size * sizeof(real));
        else memset(to, 0, (size_t)size * sizeof(real));
        for (long b = 0; b < blocks && !failed[p]; b++) {
            const double *const part = parts + 4 * b, factor = weight_of((lowest - part[0]) / s->temperature);
            if (factor == 0.0) continue;
            total += factor * part[1], squares += factor * factor * part[2], costs += factor * part[3];
            add(to, s->sums + (p * blocks + b) * size, (real)factor, size);
        }
        for (long e = 0; e < size; e++) {
            if (!failed[p]) to[e] = (real)(to[e] / total);
            if (l->low) to[e] = to[e] < l->low[e] ? l->low[e] : to[e] > l->high[e] ? l->high[e] : to[e];
        }
        least[p] = failed[p] ? NAN : lowest;
        cost[p] = failed[p] ? NAN : costs / total;
        effective[p] = failed[p] ? 0.0 : total * total / squares;
    }
}
