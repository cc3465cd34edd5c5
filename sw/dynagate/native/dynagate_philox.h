/* Philox 2x32-10 as base/philox.py defines it, of integers of 64 bits or vectors of them: two counters and a key of 32
 * bits, of which DG_PHILOX makes two words. Their four halves less the mean are a number. Bits above the 32 of a word are
 * left as they come, as no result depends on them. */
#ifndef DYNAGATE_PHILOX_H
#define DYNAGATE_PHILOX_H
enum { DG_ROUNDS = 10 };
#ifndef DG_PRODUCT
#define DG_PRODUCT(a) ((a & 0xFFFFFFFFu) * DG_FACTOR)
#endif
#define DG_FACTOR 0xD256D193u
#define DG_ROUND(type, a, b, key)                                                                                     \
    {                                                                                                                 \
        const type dg_product = DG_PRODUCT(a);                                                                        \
        a = (dg_product >> 32) ^ key ^ b;                                                                             \
        b = dg_product;                                                                                               \
    }
#define DG_NEXT_KEY(key) key = key + 0x9E3779B9u;
#define DG_PHILOX(type, a, b, key)                                                                                    \
    for (int dg_round = 0; dg_round < DG_ROUNDS; dg_round++) {                                                        \
        DG_ROUND(type, a, b, key)                                                                                     \
        DG_NEXT_KEY(key)                                                                                              \
    }
#define DG_HALVES(a, b) ((a >> 16 & 0xFFFFu) + (a & 0xFFFFu) + (b >> 16 & 0xFFFFu) + (b & 0xFFFFu))
#define DG_HALVES_MEAN 131070
#endif
