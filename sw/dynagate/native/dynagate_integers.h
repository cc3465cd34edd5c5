#include "dynagate_philox.h"
/* Sine, exponential, root and inverse on integers, as fixedpoint/elementary.py, tabulated.py and integers.py define them.
 *
 * Each takes an operand's integer x and the numbers p of its plan, which begin with the places listed below, and
 * returns an integer that DG_CUT rounds once. *wrong is set where there is no result. */

#ifndef DYNAGATE_INTEGERS_H
#define DYNAGATE_INTEGERS_H

typedef signed char dg_8;
typedef unsigned char dg_flag;
typedef int dg_32;
typedef unsigned dg_u32;
typedef long long dg_64;
typedef unsigned long long dg_u64;
_Static_assert(sizeof(dg_32) == 4 && sizeof(dg_64) == 8, "int is not of 32 bits, or long long not of 64");
#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 dg_128;
__extension__ typedef unsigned __int128 dg_u128;
#endif

/* An exact integer in a format: e + half, cut by `down` bits, is kept if it fits and wraps otherwise (`keep`: bits of
 * T less those of the format), or is brought to the nearest of the limits. */
#define DG_CUT(e, half, down) (((e) + (half)) >> (down))
#define DG_WRAP(bits, v, keep) ((dg_##bits)((dg_u##bits)(v) << (keep)) >> (keep))
#define DG_CLIP(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))

enum { DG_U_BITS, DG_OFFSET_BITS, DG_INNER_SHIFT, DG_OUTER_SHIFT, DG_TO_C0, DG_SEGMENTS, DG_TABLE };
enum { DG_HIGH, DG_LOW, DG_SPLIT, DG_SCALED_SHIFT, DG_QUARTER };
enum { DG_DOWN = DG_QUARTER, DG_EXP_LEAST, DG_EXP_MOST, DG_POWER };
enum { DG_WIDTH, DG_INDEX_BITS, DG_SHIFT, DG_LEAST_DOWN, DG_MOST_DOWN, DG_STEPS, DG_NEWTON, DG_SEED = 14 };
enum { DG_ONE, DG_ERROR_SHIFT, DG_ERROR_FRAC, DG_DROPPED, DG_OF_STEP };
enum { DG_MASK, DG_LEAST, DG_DEGREE, DG_ENTRIES, DG_SLOPE_SHIFT, DG_VALUE_UP, DG_FRAC1, DG_WINDOWS, DG_FIRST_WINDOW };

/* Clang warns of those that a file does not call. */
#define DG_FUNCTION static inline __attribute__((unused))

#define DG_ELEMENTARY(bits, rounds)                                                                                   \
    /* x * factor >> shift, of a factor p[DG_HIGH] << p[DG_SPLIT] | p[DG_LOW]: the whole product may be too long. */  \
    DG_FUNCTION dg_##bits dg_scaled_##bits(dg_##bits x, const dg_64 *p) {                                             \
        const dg_##bits low = p[DG_LOW] ? (x * p[DG_LOW]) >> p[DG_SPLIT] : 0;                                         \
        return (x * p[DG_HIGH] + low) >> p[DG_SCALED_SHIFT];                                                          \
    }                                                                                                                 \
    /* By the table of a quadratic for each segment of [0, 1), rounded half up. */                                    \
    DG_FUNCTION dg_##bits dg_quadratic_##bits(dg_64 u, const dg_64 *p) {                                              \
        const dg_64 offset = p[DG_OFFSET_BITS], segments = p[DG_SEGMENTS], *c = p + DG_TABLE + (u >> offset);         \
        const dg_64 d = (u & (((dg_64)1 << offset) - 1)) - ((dg_64)1 << (offset - 1));                                \
        const dg_64 inner = d * c[2 * segments] + ((dg_64)1 << (p[DG_INNER_SHIFT] - 1));                              \
        const dg_64 slope = c[segments] + (inner >> p[DG_INNER_SHIFT]);                                               \
        const dg_##bits exact = (((dg_##bits)d * slope) >> p[DG_TO_C0]) + c[0];                                       \
        return (exact + ((dg_##bits)1 << (p[DG_OUTER_SHIFT] - 1))) >> p[DG_OUTER_SHIFT];                              \
    }                                                                                                                 \
    DG_FUNCTION dg_##bits dg_sine_##bits(dg_##bits x, const dg_64 *p, int quarters) {                                 \
        const dg_64 *table = p + DG_QUARTER, up = table[DG_U_BITS], whole = ((dg_64)1 << up) - 1;                     \
        const dg_64 turn = (dg_64)dg_scaled_##bits(x, p);                                                             \
        const dg_64 phase = turn + ((dg_64)quarters << up), quadrant = phase >> up;                                   \
        const dg_##bits size = dg_quadratic_##bits((phase & whole) ^ (quadrant & 1 ? whole : 0), table);              \
        return quadrant & 2 ? -size : size;                                                                           \
    }                                                                                                                 \
    DG_FUNCTION dg_##bits dg_exp_##bits(dg_##bits x, const dg_64 *p, int *wrong) {                                    \
        const dg_64 *table = p + DG_POWER, up = table[DG_U_BITS], least = p[DG_EXP_LEAST], most = p[DG_EXP_MOST];     \
        const dg_##bits t = dg_scaled_##bits(x, p), wanted = p[DG_DOWN] - (t >> up);                                  \
        const dg_64 down = (dg_64)DG_CLIP(wanted, least, most), u = (dg_64)t & (((dg_64)1 << up) - 1);                \
        *wrong = wanted < least;                                                                                      \
        return *wrong ? 0 : (dg_quadratic_##bits(u, table) + ((dg_##bits)1 << (down - 1))) >> down;                   \
    }                                                                                                                 \
    /* The root of x moved by p[0] bits, with a bit below the result's, rounded half up: bit by bit. */               \
    DG_FUNCTION dg_##bits dg_root_##bits(dg_##bits x, const dg_64 *p, int *wrong) {                                   \
        *wrong = x < 0;                                                                                               \
        dg_##bits size = x < 0 ? 0 : p[0] >= 0 ? x << p[0] : x >> -p[0], root = 0, bit = (dg_##bits)1 << (bits - 4);  \
        for (int k = 0; k < rounds; k++) {                                                                            \
            const dg_##bits next = root + bit;                                                                        \
            const int fits = size >= next;                                                                            \
            size -= fits ? next : 0;                                                                                  \
            root = (root >> 1) + (fits ? bit : 0);                                                                    \
            bit >>= 2;                                                                                                \
        }                                                                                                             \
        return (root + 1) >> 1;                                                                                       \
    }                                                                                                                 \
    /* A number of base/philox.py: p has the fraction bits of the operands, then by how far it is moved up. */        \
    DG_FUNCTION dg_u32 dg_whole_##bits(dg_##bits x, dg_64 frac) {                                                     \
        return (dg_u32)(frac > 0 ? (x + ((dg_##bits)1 << (frac - 1))) >> frac : x * ((dg_##bits)1 << -frac));         \
    }                                                                                                                 \
    DG_FUNCTION dg_##bits dg_noise_##bits(dg_##bits x, dg_##bits y, dg_##bits z, const dg_64 *p) {                    \
        dg_u64 a = dg_whole_##bits(x, p[0]), b = dg_whole_##bits(y, p[1]), key = dg_whole_##bits(z, p[2]);            \
        DG_PHILOX(dg_u64, a, b, key)                                                                                  \
        return (dg_##bits)((dg_64)DG_HALVES(a, b) - DG_HALVES_MEAN) * ((dg_##bits)1 << p[3]);                         \
    }                                                                                                                 \
    DG_FUNCTION dg_##bits dg_inverse_##bits(dg_##bits x, const dg_64 *p, int *wrong) {                                \
        const dg_64 width = p[DG_WIDTH], index = p[DG_INDEX_BITS], least = p[DG_LEAST_DOWN], most = p[DG_MOST_DOWN];  \
        const dg_64 positive = x > 1 ? (dg_64)x : 1, zeros = width - 64 + __builtin_clzll((dg_u64)positive);          \
        const dg_##bits n = (dg_##bits)positive << zeros;                                                             \
        const dg_64 normalized = (dg_64)(n >> (width - 1 - index)) & (((dg_64)1 << index) - 1);                       \
        dg_##bits estimate = p[DG_SEED + normalized];                                                                 \
        const dg_64 wanted = p[DG_SHIFT] - zeros, down = DG_CLIP(wanted, least, most);                                \
        *wrong = x <= 0 || wanted < least;                                                                            \
        for (dg_64 k = 0; k < p[DG_STEPS]; k++) {                                                                     \
            const dg_64 *q = p + DG_NEWTON + DG_OF_STEP * k, dropped = k == p[DG_STEPS] - 1 ? down : q[DG_DROPPED];   \
            const dg_##bits error = (((dg_##bits)1 << q[DG_ONE]) - n * estimate) >> q[DG_ERROR_SHIFT];                \
            const dg_##bits next = (estimate << q[DG_ERROR_FRAC]) + estimate * error;                                 \
            estimate = (next + ((dg_##bits)1 << (dropped - 1))) >> dropped;                                           \
        }                                                                                                             \
        return *wrong ? 0 : estimate;                                                                                 \
    }                                                                                                                 \
    DG_FUNCTION dg_##bits dg_tabulated_##bits(dg_##bits x, const dg_64 *p, int *wrong) {                              \
        const dg_64 n = (dg_64)x & p[DG_MASK], entries = p[DG_ENTRIES];                                               \
        dg_64 address = 0, d = 0;                                                                                     \
        for (dg_64 k = 0; k < p[DG_WINDOWS]; k++) {                                                                   \
            const dg_64 *q = p + DG_FIRST_WINDOW + 3 * k; /* least operand, first address, offset's bits */           \
            const dg_64 offset = (n & (((dg_64)1 << q[2]) - 1)) - ((dg_64)1 << (q[2] - 1));                           \
            address = n >= q[0] ? q[1] + (n >> q[2]) : address;                                                       \
            d = n >= q[0] ? offset : d;                                                                               \
        }                                                                                                             \
        address = address < entries ? address : entries - 1;                                                          \
        const dg_64 *c = p + DG_FIRST_WINDOW + 3 * p[DG_WINDOWS] + address;                                           \
        dg_64 slope = c[entries];                                                                                     \
        if (p[DG_DEGREE] == 2)                                                                                        \
            slope += (d * c[2 * entries] + ((dg_64)1 << (p[DG_SLOPE_SHIFT] - 1))) >> p[DG_SLOPE_SHIFT];               \
        *wrong = x < p[DG_LEAST];                                                                                     \
        return ((dg_##bits)d * slope + ((dg_##bits)c[0] << p[DG_VALUE_UP])) >> p[DG_FRAC1];                           \
    }                                                                                                                 \
    /* By a table of short polynomials if p[0] is not 0. */                                                           \
    DG_FUNCTION dg_##bits dg_reciprocal_##bits(dg_##bits x, const dg_64 *p, int *wrong) {                             \
        return p[0] ? dg_tabulated_##bits(x, p + 1, wrong) : dg_inverse_##bits(x, p + 1, wrong);                      \
    }

DG_ELEMENTARY(64, 31)
#ifdef __SIZEOF_INT128__
DG_ELEMENTARY(128, 63)
#endif
#endif
