/* Vectors of numbers for the generated kernels: types, rows in and out, sine and cosine.
 *
 * GCC and Clang vector extensions; the width is that of the target (-march). DYNAGATE_DOUBLE chooses double instead of
 * float. One lane is one sample of the batch. */
#ifndef DYNAGATE_SIMD_H
#define DYNAGATE_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__)
#define DG_BYTES 64
#elif defined(__AVX__)
#define DG_BYTES 32
#else
#define DG_BYTES 16 /* SSE2, NEON */
#endif

#ifdef DYNAGATE_DOUBLE
typedef double real;
typedef int64_t integer;
#define DG_LANES (DG_BYTES / 8)
#define DG_NAME(name) DG_PASTE(name, _f64)
#else
typedef float real;
typedef int32_t integer;
#define DG_LANES (DG_BYTES / 4)
#define DG_NAME(name) DG_PASTE(name, _f32)
#endif
#define DG_PASTE(a, b) a##b
#define DG_INLINE static inline __attribute__((always_inline))

/* A function of its own, in which nothing is known of its arguments. */
#ifdef __clang__
#define DG_APART static __attribute__((noinline))
#else
#define DG_APART static __attribute__((noipa))
#endif

/* What lies at x, by a load: the compiler must not remember what it wrote there, or it keeps more than it has registers
 * for and writes it again elsewhere. */
#define DG_RELOAD(x) (*({ __typeof__(&(x)) at = &(x); __asm__("" : "+m"(*at)); at; }))

typedef real vec __attribute__((vector_size(DG_BYTES)));
typedef integer ivec __attribute__((vector_size(DG_BYTES)));

DG_INLINE vec dg_load(const real *from) {
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

DG_INLINE void dg_store(real *to, vec v) { memcpy(to, &v, sizeof v); }

/* A vector of FORM(0), FORM(1), ... literally: a loop that fills one may stay in the code. */
#if DG_LANES == 16
#define DG_EACH(FORM) \
    {FORM(0), FORM(1), FORM(2),  FORM(3),  FORM(4),  FORM(5),  FORM(6),  FORM(7), \
     FORM(8), FORM(9), FORM(10), FORM(11), FORM(12), FORM(13), FORM(14), FORM(15)}
#elif DG_LANES == 8
#define DG_EACH(FORM) {FORM(0), FORM(1), FORM(2), FORM(3), FORM(4), FORM(5), FORM(6), FORM(7)}
#elif DG_LANES == 4
#define DG_EACH(FORM) {FORM(0), FORM(1), FORM(2), FORM(3)}
#else
#define DG_EACH(FORM) {FORM(0), FORM(1)}
#endif

/* One step of a transposition: blocks of `half` lanes off the diagonal change places. */
DG_INLINE void dg_exchange(vec *a, vec *b, int half) {
#define DG_LOW(j) (j) & half ? DG_LANES + (j) - half : (j)
#define DG_HIGH(j) (j) & half ? DG_LANES + (j) : (j) + half
    const ivec low = DG_EACH(DG_LOW), high = DG_EACH(DG_HIGH);
    vec x = *a, y = *b;
#ifdef __clang__
    for (int j = 0; j < DG_LANES; j++) {
        (*a)[j] = low[j] < DG_LANES ? x[low[j]] : y[low[j] - DG_LANES];
        (*b)[j] = high[j] < DG_LANES ? x[high[j]] : y[high[j] - DG_LANES];
    }
#else
    *a = __builtin_shuffle(x, y, low);
    *b = __builtin_shuffle(x, y, high);
#endif
}

/* The first `width` vectors as rows of square matrices side by side, each transposed in place. */
DG_INLINE void dg_transpose(vec *rows, int width) {
#pragma GCC unroll 8
    for (int half = width / 2; half > 0; half /= 2)
#pragma GCC unroll 16
        for (int i = 0; i < width; i++)
            if (!(i & half)) dg_exchange(&rows[i], &rows[i + half], half);
}

/* A vector of parts of `width` lanes, each `stride` numbers after the one before. */
DG_INLINE vec dg_load_parts(const real *from, int width, long stride) {
#define DG_AT(p) (const void *)(from + (p) * stride)
#if defined(__AVX512F__) /* GCC 12 would put them together in memory */
    if (2 * width == DG_LANES)
        return (vec)_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(DG_AT(0))), _mm256_loadu_pd(DG_AT(1)), 1);
    if (4 * width == DG_LANES) {
        __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(DG_AT(0)));
        v = _mm512_insertf32x4(v, _mm_loadu_ps(DG_AT(1)), 1);
        v = _mm512_insertf32x4(v, _mm_loadu_ps(DG_AT(2)), 2);
        return (vec)_mm512_insertf32x4(v, _mm_loadu_ps(DG_AT(3)), 3);
    }
#elif defined(__AVX__)
    if (2 * width == DG_LANES)
        return (vec)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(DG_AT(0))), _mm_loadu_ps(DG_AT(1)), 1);
#endif
#undef DG_AT
    if (width == DG_LANES) return dg_load(from);
    vec v;
#pragma GCC unroll 16
    for (int j = 0; j < DG_LANES; j++) v[j] = from[j / width * stride + j % width];
    return v;
}

/* Part number p of a vector in parts of `width` lanes. */
DG_INLINE void dg_store_part(real *to, vec v, int width, int p) {
#if defined(__AVX512F__) /* GCC 12 would take halves through memory */
    if (2 * width == DG_LANES) {
        const __m256d low = _mm512_castpd512_pd256((__m512d)v), high = _mm512_extractf64x4_pd((__m512d)v, 1);
        memcpy(to, p ? &high : &low, sizeof low);
        return;
    }
#endif
    memcpy(to, (const real *)&v + p * width, width * sizeof(real));
}

/* Entries that are read, and written, side by side: shuffles are about as many as loads and stores. */
#define DG_READ (DG_LANES < 4 ? DG_LANES : 4)
#define DG_WRITE (DG_LANES > 8 ? 8 : DG_READ)

/* sin and cos of |x| up to about 1e5 (float: 1e4) rad: x less the nearest multiple of pi/2, given in parts that multiply
 * exactly, then polynomials on [-pi/4, pi/4] that interpolate at Chebyshev points. Error below 2 units in the last place
 * where the result is not near a zero. */
DG_INLINE void dg_sincos(vec x, vec *sine, vec *cosine) {
#ifdef DYNAGATE_DOUBLE
    const real magic = 0x1.8p52;
    const real p1 = 0x1.921fb544p0, p2 = 0x1.0b4611a6p-34, p3 = 0x1.3198a2e037073p-69;
#else
    const real magic = 0x1.8p23f;
    const real p1 = 0x1.92p0f, p2 = 0x1.fb4p-12f, p3 = 0x1.4442d2p-24f;
#endif
    vec shifted = x * (real)0.636619772367581343076 + magic;
    vec turns = shifted - magic;
    ivec quarter;
    memcpy(&quarter, &shifted, sizeof quarter);
    vec r = ((x - turns * p1) - turns * p2) - turns * p3;
    vec z = r * r;
#ifdef DYNAGATE_DOUBLE
    vec s = ((((z * 1.5918101230274120348e-10 - 2.5051131455427947391e-8) * z + 2.755731610068302914e-6) * z -
            0.00019841269836754970014) * z + 0.0083333333333309461029) * z - 0.16666666666666664621;
    vec c = ((((z * -1.1382614868556324576e-11 + 2.0876146024689746601e-9) * z - 2.7557317270560324065e-7) * z
            + 0.000024801587298763433164) * z - 0.0013888888888887395746) * z + 0.041666666666666665387;
#else
    vec s = (z * -0.000195878405213f + 0.00833274803752f) * z - 0.166666646611f;
    vec c = (z * 0.0000245478916198f - 0.00138883028023f) * z + 0.0416666646583f;
#endif
    s = r + r * (z * s);
    c = (z * c - (real)0.5) * z + (real)1;
    /* odd quarters exchange both, and every second one changes signs */
    const integer minus = (integer)((uint64_t)1 << (8 * sizeof(real) - 1));
    ivec odd = -(quarter & 1), turned = (quarter << (8 * (int)sizeof(real) - 2)) & minus, a, b;
    memcpy(&a, &s, sizeof a);
    memcpy(&b, &c, sizeof b);
    ivec change = (a ^ b) & odd;
    ivec sine_bits = a ^ change ^ turned, cosine_bits = b ^ change ^ (turned ^ (odd & minus));
    memcpy(sine, &sine_bits, sizeof a);
    memcpy(cosine, &cosine_bits, sizeof b);
}

#endif
