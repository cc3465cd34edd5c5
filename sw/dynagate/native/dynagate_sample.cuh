#include "dynagate_philox.h"
/* Rows: NAME<<<blocks, NAME_THREADS, NAME_SHARED>>>(in0, ..., out0, ..., batch), blocks = batch / NAME_THREADS rounded up;
 * NAME_SHARED beyond 48 KB is asked for before by cudaFuncSetAttribute. Planes: NAME_planes<<<blocks, NAME_THREADS>>>(the
 * same), which does not write entries that are always zero.
 *
 * What the generated kernels share follows. The same text compiles as host code, where a warp's lanes take turns. */
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SAMPLE static __device__ __forceinline__
#define TABLE static __device__ const short
#define DG_CONSTANT static __device__ const
#define DG_APART static __device__ __noinline__
#define UNROLL(n) DO_PRAGMA(unroll n)
#define DO_PRAGMA(text) _Pragma(#text)
#else
#include <math.h>
#include <string.h>
#define SAMPLE static inline
#define TABLE static const short
#define DG_CONSTANT static const
#define DG_APART static __attribute__((noinline))
#define UNROLL(n)
#endif
#define LANES 32
#define DG_RELOAD(x) (x)
#define restrict __restrict__

/* A function of numbers x, y and z. */
#define DG_FUNCTION(name, value) \
    SAMPLE real dg_##name(real x, real y, real z) { return (void)y, (void)z, (value); }
#define DG_CALL(name, ...) dg_##name(__VA_ARGS__)

/* sin and cos of x: x less the nearest multiple of pi/2, given in parts that multiply exactly up to about 1e4 rad, then
 * polynomials on [-pi/4, pi/4] that interpolate at Chebyshev points. Error below 2 units in the last place where the
 * result is not near a zero; beyond 1e4 rad as if x erred in its last place. From 2^18 rad on x * SCALE overflows, and the
 * result is no number. */
#define SCALE 0x1p110f
SAMPLE void sine_cosine(float x, float *sine, float *cosine) {
    const float turns = rintf(x * SCALE * (0.636619772367581343f / SCALE));
    const float r = fmaf(-turns, 0x1.4442d2p-24f, fmaf(-turns, 0x1.fb4p-12f, fmaf(-turns, 0x1.92p0f, x))), z = r * r;
    const float s = fmaf(r, z * fmaf(fmaf(z, -0.000195878405213f, 0.00833274803752f), z, -0.166666646611f), r);
    const float c = fmaf(fmaf(fmaf(z, 0.0000245478916198f, -0.00138883028023f), z, 0.0416666646583f), z * z,
                         fmaf(z, -0.5f, 1.0f));
    const int quarter = (int)turns;
    const float a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = (quarter + 1) & 2 ? -b : b;
}

SAMPLE void sine_cosine(double x, double *sine, double *cosine) { sincos(x, sine, cosine); }

SAMPLE real dg_sin(real x, real, real) {
    real sine, cosine;
    sine_cosine(x, &sine, &cosine);
    return sine;
}

SAMPLE real dg_cos(real x, real, real) {
    real sine, cosine;
    sine_cosine(x, &sine, &cosine);
    return cosine;
}

SAMPLE real dg_exp(real x, real, real) { return exp(x); }

/* A number of base/philox.py; operands are rounded to integers, half up. */
SAMPLE real dg_noise(real number, real draw, real seed) {
    unsigned long long a = (unsigned)(long long)floor((double)number + 0.5);
    unsigned long long b = (unsigned)(long long)floor((double)draw + 0.5);
    unsigned long long key = (unsigned)(long long)floor((double)seed + 0.5);
    DG_PHILOX(unsigned long long, a, b, key)
    return (real)((long long)DG_HALVES(a, b) - DG_HALVES_MEAN) * (real)0x1p-15;
}

/* A lane's part of writing the rows of an output that the lanes of its warp have left in `own`, `pitch` numbers each: a
 * warp writes whole lines of memory, which single lanes with a row each cannot. Numbers are read before any is written,
 * several at a time, for the compiler may not change their order. */
#define TOGETHER 16
template <int size, int pitch> SAMPLE void store(real *out, const real *own, const short *at, int lane, int rows) {
    for (int j = lane; j < size; j += LANES) {
        const int from = at[j]; /* -1: always zero */
        for (int first = 0; first < LANES; first += TOGETHER) {
            real numbers[TOGETHER];
            UNROLL(16)
            for (int k = 0; k < TOGETHER; k++) numbers[k] = from < 0 ? (real)0 : own[(first + k) * pitch + from];
            UNROLL(16)
            for (int k = 0; k < TOGETHER; k++)
                if (first + k < rows) out[(first + k) * size + j] = numbers[k];
        }
    }
}

/* The same where rows lie in `own` as they do in the output, by 16 bytes. */
struct alignas(16) sixteen {
    real numbers[16 / sizeof(real)];
};
#define FLAT_TOGETHER 8
template <int size> SAMPLE void store_flat(real *out, const real *own, int lane, int rows) {
    const int count = rows * size, wide = 16 / (int)sizeof(real), most = LANES * size / wide;
    int done = 0;
    if ((size_t)out % 16 == 0) {
        done = count / wide;
        UNROLL(16)
        for (int first = 0; first < most; first += FLAT_TOGETHER * LANES) {
            sixteen numbers[FLAT_TOGETHER];
            UNROLL(8)
            for (int k = 0; k < FLAT_TOGETHER; k++) {
                const int e = first + k * LANES + lane;
                if (e < done) numbers[k] = ((const sixteen *)own)[e];
            }
            UNROLL(8)
            for (int k = 0; k < FLAT_TOGETHER; k++) {
                const int e = first + k * LANES + lane;
                if (e < done) ((sixteen *)out)[e] = numbers[k];
            }
        }
        done = done < 0 ? 0 : done * wide;
    }
    for (int e = done + lane; e < count; e += LANES) out[e] = own[e];
}
