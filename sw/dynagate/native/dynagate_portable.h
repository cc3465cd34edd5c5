/* Numbers, functions and annotations of portable C: valid C11 and C++17, without extensions.
 *
 * The including file defines DYNAGATE_REAL, the type of numbers, and DYNAGATE_MATH(name), the function of math.h for it. */
#ifndef DYNAGATE_PORTABLE_H
#define DYNAGATE_PORTABLE_H
#ifdef __FAST_MATH__
#error "compile without -ffast-math: it removes the checks for infinite values and NaN"
#endif
#include "dynagate_philox.h"
#include <math.h>
#include <stdint.h>

typedef DYNAGATE_REAL real;
#define NUMBER real
#ifdef __cplusplus
#define restrict
#endif
#define DG_INLINE static inline
#define DG_CONSTANT static const
#define DG_ALL(x) (x)
#define DG_RELOAD(x) (x)
#define UNROLL(n)
#if defined(__GNUC__)
#define DG_APART static __attribute__((noinline))
#else
#define DG_APART static
#endif

#define DG_CALL(name, x, y, z) dg_##name(x, y, z)
DG_INLINE real dg_sin(real x, real y, real z) { return (void)y, (void)z, DYNAGATE_MATH(sin)(x); }
DG_INLINE real dg_cos(real x, real y, real z) { return (void)y, (void)z, DYNAGATE_MATH(cos)(x); }
DG_INLINE real dg_exp(real x, real y, real z) { return (void)y, (void)z, DYNAGATE_MATH(exp)(x); }
DG_INLINE real dg_sqrt(real x, real y, real z) { return (void)y, (void)z, DYNAGATE_MATH(sqrt)(x); }
DG_INLINE real dg_select(real x, real y, real z) { return x > 0 ? y : z; }

/* A random number of base/philox.py. Operands are rounded to integers, half up. */
DG_INLINE uint64_t dg_whole(real x) { return (uint32_t)(int64_t)floor((double)x + 0.5); }
DG_INLINE real dg_noise(real number, real draw, real seed) {
    uint64_t a = dg_whole(number), b = dg_whole(draw), key = dg_whole(seed);
    DG_PHILOX(uint64_t, a, b, key)
    return (real)((int64_t)DG_HALVES(a, b) - DG_HALVES_MEAN) * (real)(1.0 / 32768.0);
}

/* 0, or NaN if one of `size` numbers is infinite or NaN. */
DG_INLINE real dg_doubt(const real *x, long size) {
    real sum = 0;
    for (long j = 0; j < size; j++) sum += x[j] * 0;
    return sum;
}
#endif
