/* Philox 2x32-10 as base/philox.py defines it, of integers of 64 bits or vectors of them: two counters and a key of 32
 * bits, of which DG_PHILOX makes two words. Their four halves less the mean are a number. */
#ifndef DYNAGATE_PHILOX_H
#define DYNAGATE_PHILOX_H
#define DG_PHILOX(type, a, b, key)                                                                                    \
    for (int dg_round = 0; dg_round < 10; dg_round++) {                                                               \
        const type dg_product = (a & 0xFFFFFFFFu) * 0xD256D193u;                                                      \
        a = (dg_product >> 32) ^ key ^ b;                                                                             \
        b = dg_product & 0xFFFFFFFFu;                                                                                 \
        key = (key + 0x9E3779B9u) & 0xFFFFFFFFu;                                                                      \
    }
#define DG_HALVES(a, b) ((a >> 16) + (a & 0xFFFFu) + (b >> 16) + (b & 0xFFFFu))
#define DG_HALVES_MEAN 131070
#endif
