/* Vectors of numbers for the generated kernels: types, rows in and out, sine and cosine.
 *
 * GCC and Clang vector extensions; the width is that of the target (-march). DYNAGATE_DOUBLE chooses double instead of
 * float. One lane is one sample of the batch. */
#ifndef DYNAGATE_SIMD_H
#define DYNAGATE_SIMD_H

#include "dynagate_philox.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) /* Elsewhere a few builtins do: to read this header takes as long as to compile a small kernel. */
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif !defined(__SSE__)
#include <fenv.h> /* link with -lm */
#endif
#if defined(__AVX512F__)
#define DG_BYTES 64
#ifdef __clang__ /* Clang would halve vectors. The text that includes this file ends with DG_END. */
#pragma clang attribute push(__attribute__((min_vector_width(512))), apply_to = function)
#define DG_END _Pragma("clang attribute pop")
#endif
#elif defined(__AVX__)
#define DG_BYTES 32
#else
#define DG_BYTES 16 /* SSE2, NEON */
#endif

#ifndef DG_END
#define DG_END
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
typedef real unaligned __attribute__((vector_size(DG_BYTES), aligned(sizeof(real))));
typedef integer ivec __attribute__((vector_size(DG_BYTES)));

DG_INLINE vec dg_load(const real *from) {
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

DG_INLINE void dg_store(real *to, vec v) { memcpy(to, &v, sizeof v); }

/* To where a vector may lie whole, past the caches; dg_streamed() before anybody reads it. */
#if defined(__AVX512F__)
#define DG_STREAMS 1
DG_INLINE void dg_stream(real *to, vec v) { _mm512_stream_ps((float *)to, (__m512)v); }
#elif defined(__AVX__)
#define DG_STREAMS 1
typedef float dg_floats4 __attribute__((vector_size(16)));
typedef float dg_floats8 __attribute__((vector_size(32)));
#ifdef __clang__
DG_INLINE void dg_stream(real *to, vec v) { __builtin_nontemporal_store(v, (vec *)to); }
#define DG_JOIN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#else
DG_INLINE void dg_stream(real *to, vec v) { __builtin_ia32_movntps256((float *)to, (dg_floats8)v); }
#define DG_JOIN(a, b) __builtin_ia32_vinsertf128_ps256(__builtin_ia32_ps256_ps(a), b, 1)
#endif
#else
#define DG_STREAMS 0
#define dg_stream dg_store
#endif
DG_INLINE void dg_streamed(void) {
#if DG_STREAMS
    __builtin_ia32_sfence();
#endif
}

/* The processor's flags of operations without a result, divisions by zero and results too large for their type, from
 * dg_clear_faults() to dg_faults(): they are set at no cost. */
#if defined(__SSE__)
#define DG_FAULTS 13 /* bits 0, 2 and 3 of MXCSR: invalid operations, divisions by zero, overflow */
#define dg_flags() __builtin_ia32_stmxcsr()
#define dg_set_flags(flags) __builtin_ia32_ldmxcsr(flags)
#elif defined(__aarch64__)
#define DG_FAULTS 7
DG_INLINE uint64_t dg_flags(void) {
    uint64_t flags;
    __asm__ volatile("mrs %0, fpsr" : "=r"(flags));
    return flags;
}
DG_INLINE void dg_set_flags(uint64_t flags) { __asm__ volatile("msr fpsr, %0" : : "r"(flags)); }
#else
#define DG_FAULTS (FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW)
#define dg_flags() fetestexcept(DG_FAULTS)
#define dg_set_flags(flags) feclearexcept(DG_FAULTS)
#endif
DG_INLINE void dg_clear_faults(void) {
    const uint64_t flags = dg_flags();
    if (flags & DG_FAULTS) dg_set_flags(flags & ~DG_FAULTS);
}
DG_INLINE int dg_faults(void) {
    __asm__ volatile("" : : : "memory"); /* all results are in memory before the flags are read */
    return (dg_flags() & DG_FAULTS) != 0;
}

/* A function of single numbers x, y and z, and the same of vectors: dg_NAME_real, dg_NAME_vec. */
#define DG_FUNCTION(name, value) \
    DG_INLINE real dg_##name##_real(real x, real y, real z) { return (void)y, (void)z, (value); } \
    DG_INLINE vec dg_##name##_vec(vec x, vec y, vec z) { \
        vec v; \
        for (int j = 0; j < DG_LANES; j++) v[j] = dg_##name##_real(x[j], y[j], z[j]); \
        return v; \
    }
#define DG_CALL(name, ...) DG_PASTE3(dg_##name##_, NUMBER)(__VA_ARGS__)
#define DG_PASTE3(a, b) DG_PASTE(a, b)

/* Products and sums with one rounding, if the processor has such an instruction, else with two: x * y + z, x * y - z and
 * z - x * y. Kernels are compiled without contraction, so that their results do not depend on the compiler. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define DG_FUSES 1
#else
#define DG_FUSES 0
#endif
#ifdef DYNAGATE_DOUBLE
#define DG_REAL_FMA __builtin_fma
#define DG_WIDE(name) _mm512_##name##_pd
typedef double dg_fused512 __attribute__((vector_size(64), may_alias));
#define DG_WIDTH256(name) __builtin_ia32_v##name##pd256
#define DG_NEON(x, y, z) (vec)vfmaq_f64((float64x2_t)(z), (float64x2_t)(x), (float64x2_t)(y))
#else
#define DG_REAL_FMA __builtin_fmaf
#define DG_WIDE(name) _mm512_##name##_ps
typedef float dg_fused512 __attribute__((vector_size(64), may_alias));
#define DG_WIDTH256(name) __builtin_ia32_v##name##ps256
#define DG_NEON(x, y, z) (vec)vfmaq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y))
#endif
#if !DG_FUSES
DG_INLINE real dg_fma_real(real x, real y, real z) { return x * y + z; }
DG_INLINE vec dg_fma_vec(vec x, vec y, vec z) { return x * y + z; }
DG_INLINE vec dg_fms_vec(vec x, vec y, vec z) { return x * y - z; }
DG_INLINE vec dg_fnma_vec(vec x, vec y, vec z) { return z - x * y; }
#else
DG_INLINE real dg_fma_real(real x, real y, real z) { return DG_REAL_FMA(x, y, z); }
#if defined(__AVX512F__)
DG_INLINE vec dg_fma_vec(vec x, vec y, vec z) {
    return (vec)DG_WIDE(fmadd)((dg_fused512)x, (dg_fused512)y, (dg_fused512)z);
}
DG_INLINE vec dg_fms_vec(vec x, vec y, vec z) {
    return (vec)DG_WIDE(fmsub)((dg_fused512)x, (dg_fused512)y, (dg_fused512)z);
}
DG_INLINE vec dg_fnma_vec(vec x, vec y, vec z) {
    return (vec)DG_WIDE(fnmadd)((dg_fused512)x, (dg_fused512)y, (dg_fused512)z);
}
#elif defined(__FMA__) && !defined(__clang__)
DG_INLINE vec dg_fma_vec(vec x, vec y, vec z) { return DG_WIDTH256(fmadd)(x, y, z); }
DG_INLINE vec dg_fms_vec(vec x, vec y, vec z) { return DG_WIDTH256(fmsub)(x, y, z); }
DG_INLINE vec dg_fnma_vec(vec x, vec y, vec z) { return DG_WIDTH256(fnmadd)(x, y, z); }
#elif defined(__aarch64__)
DG_INLINE vec dg_fma_vec(vec x, vec y, vec z) { return DG_NEON(x, y, z); }
DG_INLINE vec dg_fms_vec(vec x, vec y, vec z) { return DG_NEON(x, y, -z); }
DG_INLINE vec dg_fnma_vec(vec x, vec y, vec z) { return DG_NEON(-x, y, z); }
#else
DG_INLINE vec dg_fma_vec(vec x, vec y, vec z) {
#if defined(__FMA__) /* Clang, whose new versions have the first, and old ones the second */
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(x, y, z);
#else
    return DG_WIDTH256(fmadd)(x, y, z);
#endif
#else
    vec v = x;
    for (int j = 0; j < DG_LANES; j++) v[j] = DG_REAL_FMA(x[j], y[j], z[j]);
    return v;
#endif
}
DG_INLINE vec dg_fms_vec(vec x, vec y, vec z) { return dg_fma_vec(x, y, -z); }
DG_INLINE vec dg_fnma_vec(vec x, vec y, vec z) { return dg_fma_vec(-x, y, z); }
#endif
#endif
DG_INLINE real dg_fms_real(real x, real y, real z) { return dg_fma_real(x, y, -z); }
DG_INLINE real dg_fnma_real(real x, real y, real z) { return dg_fma_real(-x, y, z); }
#define DG_VEC(x) ((vec){0} + (real)(x))
#define DG_TERM(x, y, c) dg_fma_vec(x, y, DG_VEC(c))

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

/* A vector of which each lane is the one of x, or from DG_LANES on of y, that the index says. */
DG_INLINE vec dg_pick(vec x, vec y, ivec index) {
#ifdef __clang__
    vec v;
    for (int j = 0; j < DG_LANES; j++) v[j] = index[j] < DG_LANES ? x[index[j]] : y[index[j] - DG_LANES];
    return v;
#else
    return __builtin_shuffle(x, y, index);
#endif
}

/* One step of a transposition: blocks of `half` lanes off the diagonal change places. */
DG_INLINE void dg_exchange(vec *a, vec *b, int half) {
#define DG_LOW(j) (j) & half ? DG_LANES + (j) - half : (j)
#define DG_HIGH(j) (j) & half ? DG_LANES + (j) : (j) + half
    const ivec low = DG_EACH(DG_LOW), high = DG_EACH(DG_HIGH);
    const vec x = *a, y = *b;
    *a = dg_pick(x, y, low);
    *b = dg_pick(x, y, high);
}

/* Quarters of a vector of numbers of 32 bits, each a 4 by 4 matrix with those of its neighbors: pairs first, which takes
 * no index. */
DG_INLINE void dg_transpose_quarters(vec *rows) {
#define DG_PAIRS(j) ((j) / 4 * 4 + (j) % 4 / 2 + (j) % 2 * DG_LANES)
#define DG_PAIRS_HIGH(j) (DG_PAIRS(j) + 2)
    const ivec low = DG_EACH(DG_PAIRS), high = DG_EACH(DG_PAIRS_HIGH);
    const vec a = dg_pick(rows[0], rows[1], low), b = dg_pick(rows[0], rows[1], high);
    const vec c = dg_pick(rows[2], rows[3], low), d = dg_pick(rows[2], rows[3], high);
    rows[0] = a, rows[1] = c, rows[2] = b, rows[3] = d;
    dg_exchange(&rows[0], &rows[1], 2);
    dg_exchange(&rows[2], &rows[3], 2);
}

/* The first `width` vectors as rows of square matrices side by side, each transposed in place. */
DG_INLINE void dg_transpose(vec *rows, int width) {
    const int quarters = sizeof(real) == 4 && width >= 4;
    const int least = quarters ? 4 : 1;
#pragma GCC unroll 8
    for (int half = width / 2; half >= least; half /= 2)
#pragma GCC unroll 16
        for (int i = 0; i < width; i++)
            if (!(i & half)) dg_exchange(&rows[i], &rows[i + half], half);
#pragma GCC unroll 4
    for (int i = 0; quarters && i < width; i += 4) dg_transpose_quarters(rows + i);
}

/* A vector of parts of `width` lanes, each `stride` numbers after the one before; of the last one, `last` numbers. */
DG_INLINE vec dg_load_parts(const real *from, int width, long stride, int last) {
#define DG_AT(p) (const void *)(from + (p) * stride)
#if defined(__AVX512F__) /* GCC 12 would put them together in memory */
    if (2 * width == DG_LANES) {
        __m256d second;
        if (last == width)
            second = _mm256_loadu_pd(DG_AT(1));
        else
            second = _mm512_castpd512_pd256((__m512d)_mm512_maskz_loadu_ps((1 << last) - 1, DG_AT(1)));
        return (vec)_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(DG_AT(0))), second, 1);
    }
    if (4 * width == DG_LANES) {
        __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(DG_AT(0)));
        v = _mm512_insertf32x4(v, _mm_loadu_ps(DG_AT(1)), 1);
        v = _mm512_insertf32x4(v, _mm_loadu_ps(DG_AT(2)), 2);
        return (vec)_mm512_insertf32x4(v, _mm_loadu_ps(DG_AT(3)), 3);
    }
#elif defined(__AVX__)
    if (2 * width == DG_LANES) {
        dg_floats4 first, second;
        memcpy(&first, DG_AT(0), sizeof first);
        memcpy(&second, DG_AT(1), sizeof second);
        return (vec)DG_JOIN(first, second);
    }
#endif
#undef DG_AT
    if (width == DG_LANES) return dg_load(from);
    vec v;
#pragma GCC unroll 16
    for (int j = 0; j < DG_LANES; j++) v[j] = from[j / width * stride + j % width];
    return v;
}

/* `width` entries of DG_LANES rows, `size` numbers apart, as vectors; of the last row only `last` are read. */
DG_INLINE void dg_read_columns(const real *from, int size, int width, int last, vec *entry) {
#if defined(__AVX512F__) && !defined(DYNAGATE_DOUBLE)
    if (width == 8) { /* four quarters of rows at once, by shuffles without an index */
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const __m512 a = (__m512)dg_load_parts(from + i * size, 8, 4 * size, 8);
            const __m512 b = (__m512)dg_load_parts(from + (8 + i) * size, 8, 4 * size, i < 3 ? 8 : last);
            entry[i] = (vec)_mm512_shuffle_f32x4(a, b, 0x88);
            entry[4 + i] = (vec)_mm512_shuffle_f32x4(a, b, 0xdd);
        }
        dg_transpose_quarters(entry);
        dg_transpose_quarters(entry + 4);
        return;
    }
#endif
#pragma GCC unroll 8
    for (int i = 0; i < width; i++)
        entry[i] = dg_load_parts(from + i * size, width, (long)width * size, i < width - 1 ? width : last);
    dg_transpose(entry, width);
}

/* Part number p of a vector in parts of `width` lanes, of which `count` are stored. */
DG_INLINE void dg_store_part(real *to, vec v, int width, int p, int count) {
#if defined(__AVX512F__) /* GCC 12 would take halves through memory */
    if (2 * width == DG_LANES) {
        const __m256d low = _mm512_castpd512_pd256((__m512d)v), high = _mm512_extractf64x4_pd((__m512d)v, 1);
        if (count == width)
            memcpy(to, p ? &high : &low, sizeof low);
        else
            _mm512_mask_storeu_ps(to, (1 << count) - 1, (__m512)_mm512_castpd256_pd512(p ? high : low));
        return;
    }
#endif
    memcpy(to, (const real *)&v + p * width, count * sizeof(real));
}

/* Entries that are read, and written, side by side: shuffles are about as many as loads and stores. */
#define DG_PART (DG_LANES > 8 ? 8 : DG_LANES < 4 ? DG_LANES : 4)

/* sin and cos of x: x less the nearest multiple of a part of a turn, then polynomials that interpolate. Where the result is
 * not near a zero it errs by less than 3 units in the last place with AVX-512, 2 elsewhere.
 *
 * The multiple is taken off in pieces: two where a product is added without being rounded, else three, of which those that
 * matter multiply exactly up to about 1e5 (float: 1e4) rad; from there on the result errs as if x did in its last place.
 * From 2^47 (float: 2^18) rad on the multiple is not near enough any more; x * DG_SCALE overflows there, and the result is
 * no number. */
#ifdef DYNAGATE_DOUBLE
#define DG_SCALE 0x1p977
#define DG_MAGIC 0x1.8p52
#if DG_FUSES
#define DG_QUARTER 0x1.921fb54442d18p0, 0x1.1a62633145c07p-54 /* pi/2 */
#else
#define DG_QUARTER 0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69
#endif
#else
#define DG_SCALE 0x1p110f
#define DG_MAGIC 0x1.8p23f
#if DG_FUSES
#define DG_QUARTER 0x1.921fb6p0f, -0x1.777a5cp-25f
#else
#define DG_QUARTER 0x1.92p0f, 0x1.fb4p-12f, 0x1.4442d2p-24f
#endif
#endif

/* What is left of x, and the number of parts of a turn taken off, in the lowest bits. */
DG_INLINE vec dg_reduce(vec x, int parts, ivec *taken) {
    static const real quarter[] = {DG_QUARTER};
    const vec shifted = DG_TERM(x * DG_SCALE, DG_VEC(parts / 6.28318530717958647693 / DG_SCALE), DG_MAGIC);
    const vec turns = shifted - DG_MAGIC;
    const real scale = (real)4 / parts;
    memcpy(taken, &shifted, sizeof shifted);
#pragma GCC unroll 3
    for (int k = 0; k < (int)(sizeof quarter / sizeof *quarter); k++)
        x = dg_fnma_vec(turns, DG_VEC(quarter[k] * scale), x);
    return x;
}

#ifdef __AVX512F__
/* 32 parts of a turn (double: 16), whose sines and cosines are found by one shuffle each. */
DG_INLINE void dg_sincos(vec x, vec *sine, vec *cosine) {
    ivec taken;
    const vec r = dg_reduce(x, 2 * DG_LANES, &taken), z = r * r;
#ifdef DYNAGATE_DOUBLE
    const real p = 0.38268343236508977173, h = 0.70710678118654752440, q = 0.92387953251128675613;
    const vec a0 = {0, p, h, q, 1, q, h, p}, b0 = {1, q, h, p, 0, -p, -h, -q};
    const vec a = (vec)_mm512_permutex2var_pd((__m512d)a0, (__m512i)taken, (__m512d)-a0);
    const vec b = (vec)_mm512_permutex2var_pd((__m512d)b0, (__m512i)taken, (__m512d)-b0);
    const vec s = r * DG_TERM(DG_TERM(DG_TERM(DG_TERM(z, DG_VEC(2.7537989733057509996e-6), -0.00019841265179523624076), z,
            0.0083333333333329735389757), z, -0.16666666666666623276), z, 1);
    const vec c = DG_TERM(DG_TERM(DG_TERM(DG_TERM(z, DG_VEC(-2.7537184426564929509e-7), 0.000024801580503269192646), z,
            -0.001388888888795193994), z, 0.041666666666666214696), z, -0.49999999999999999965) * z;
#else
    const real p1 = 0.195090322016f, p2 = 0.382683432365f, p3 = 0.55557023302f, p4 = 0.707106781187f, p5 = 0.831469612303f,
               p6 = 0.923879532511f, p7 = 0.980785280403f;
    const vec a0 = {0, p1, p2, p3, p4, p5, p6, p7, 1, p7, p6, p5, p4, p3, p2, p1};
    const vec b0 = {1, p7, p6, p5, p4, p3, p2, p1, 0, -p1, -p2, -p3, -p4, -p5, -p6, -p7};
    const vec a = (vec)_mm512_permutex2var_ps((__m512)a0, (__m512i)taken, (__m512)-a0);
    const vec b = (vec)_mm512_permutex2var_ps((__m512)b0, (__m512i)taken, (__m512)-b0);
    const vec s = r * DG_TERM(DG_TERM(z, DG_VEC(0.00833131844f), -0.166666664f), z, 1);
    const vec c = DG_TERM(z, DG_VEC(0.0416532687923f), -0.499999983843f) * z;
#endif
    /* c: less 1, which loses nothing */
    *sine = dg_fma_vec(a, c, dg_fma_vec(b, s, a));
    *cosine = dg_fma_vec(b, c, dg_fnma_vec(a, s, b));
}
#else
DG_INLINE void dg_sincos(vec x, vec *sine, vec *cosine) {
    ivec quarter;
    const vec r = dg_reduce(x, 4, &quarter), z = r * r;
#ifdef DYNAGATE_DOUBLE
    vec s = DG_TERM(DG_TERM(DG_TERM(DG_TERM(DG_TERM(z, DG_VEC(1.5918101230274120348e-10), -2.5051131455427947391e-8), z,
            2.755731610068302914e-6), z, -0.00019841269836754970014), z, 0.0083333333333309461029), z, -0.16666666666666664621);
    vec c = DG_TERM(DG_TERM(DG_TERM(DG_TERM(DG_TERM(z, DG_VEC(-1.1382614868556324576e-11), 2.0876146024689746601e-9), z,
            -2.7557317270560324065e-7), z, 0.000024801587298763433164), z, -0.0013888888888887395746), z,
            0.041666666666666665387);
#else
    vec s = DG_TERM(DG_TERM(z, DG_VEC(-0.000195878405213f), 0.00833274803752f), z, -0.166666646611f);
    vec c = DG_TERM(DG_TERM(z, DG_VEC(0.0000245478916198f), -0.00138883028023f), z, 0.0416666646583f);
#endif
    s = dg_fma_vec(r, z * s, r);
    c = DG_TERM(DG_TERM(z, c, -0.5), z, 1);
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

/* Sines and cosines of what a segment computes; those of inputs are computed together before all else. */
DG_INLINE vec dg_sin_vec(vec x, vec y, vec z) {
    vec sine, cosine;
    dg_sincos(x, &sine, &cosine);
    return (void)y, (void)z, (void)cosine, sine;
}
DG_INLINE vec dg_cos_vec(vec x, vec y, vec z) {
    vec sine, cosine;
    dg_sincos(x, &sine, &cosine);
    return (void)y, (void)z, (void)sine, cosine;
}
DG_INLINE real dg_sin_real(real x, real y, real z) { return dg_sin_vec((vec){0} + x, (vec){0} + y, (vec){0} + z)[0]; }
DG_INLINE real dg_cos_real(real x, real y, real z) { return dg_cos_vec((vec){0} + x, (vec){0} + y, (vec){0} + z)[0]; }

/* e to the x = 2^n e^r with |r| <= ln(2)/2: the series of e^r, whose rest is less than half a unit, and the power of two in
 * two factors, so that results too large or too small become what they must. Beyond the limits nothing changes any more. */
#ifdef DYNAGATE_DOUBLE
#define DG_LN2 0x1.62e42fefap-1, 0x1.cf79abc9e3b3ap-40
#define DG_EXP_LIMIT 746
#define DG_TERMS 13
#define DG_MANTISSA 52
#else
#define DG_LN2 0x1.62e4p-1f, 0x1.7f7d1cp-20f
#define DG_EXP_LIMIT 104
#define DG_TERMS 7
#define DG_MANTISSA 23
#endif
DG_INLINE vec dg_power_of_two(ivec n) {
    const ivec bits = (n + (((integer)1 << (8 * (int)sizeof(real) - DG_MANTISSA - 2)) - 1)) << DG_MANTISSA;
    vec power;
    memcpy(&power, &bits, sizeof bits);
    return power;
}
DG_INLINE vec dg_where(ivec mask, vec x, vec y) {
    ivec a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    a = (a & mask) | (b & ~mask);
    memcpy(&x, &a, sizeof a);
    return x;
}
DG_INLINE vec dg_exp_vec(vec x, vec y, vec z) {
    static const real ln2[] = {DG_LN2}, one_by[] = {1, 1, 1 / (real)2, 1 / (real)6, 1 / (real)24, 1 / (real)120,
        1 / (real)720, 1 / (real)5040, 1 / (real)40320, 1 / (real)362880, 1 / (real)3628800, 1 / (real)39916800,
        1 / (real)479001600, 1 / (real)6227020800};
    const vec limit = (vec){0} + DG_EXP_LIMIT, magic = (vec){0} + DG_MAGIC;
    x = dg_where(x > limit, limit, dg_where(x < -limit, -limit, x));
    const vec shifted = dg_fma_vec(x, DG_VEC(1.44269504088896340736), magic), turns = shifted - magic;
    const vec r = dg_fnma_vec(turns, DG_VEC(ln2[1]), dg_fnma_vec(turns, DG_VEC(ln2[0]), x));
    ivec n, zero;
    memcpy(&n, &shifted, sizeof n);
    memcpy(&zero, &magic, sizeof zero);
    n -= zero;
    vec series = (vec){0} + one_by[DG_TERMS];
#pragma GCC unroll 16
    for (int k = DG_TERMS - 1; k >= 0; k--) series = DG_TERM(series, r, one_by[k]);
    return (void)y, (void)z, series * dg_power_of_two(n >> 1) * dg_power_of_two(n - (n >> 1));
}
DG_INLINE real dg_exp_real(real x, real y, real z) { return dg_exp_vec((vec){0} + x, (vec){0} + y, (vec){0} + z)[0]; }

/* A number of base/philox.py; operands are rounded to integers, half up. */
typedef uint64_t dg_words __attribute__((vector_size(8 * DG_LANES)));
DG_INLINE void dg_whole(vec x, dg_words *v) {
    for (int j = 0; j < DG_LANES; j++) (*v)[j] = (uint32_t)(int64_t)floor((double)x[j] + 0.5);
}
DG_INLINE vec dg_noise_vec(vec number, vec draw, vec seed) {
    dg_words a, b, key;
    dg_whole(number, &a), dg_whole(draw, &b), dg_whole(seed, &key);
    DG_PHILOX(dg_words, a, b, key)
    const dg_words halves = DG_HALVES(a, b);
    vec v;
    for (int j = 0; j < DG_LANES; j++) v[j] = (real)((int64_t)halves[j] - DG_HALVES_MEAN) * (real)0x1p-15;
    return v;
}
DG_INLINE real dg_noise_real(real x, real y, real z) { return dg_noise_vec((vec){0} + x, (vec){0} + y, (vec){0} + z)[0]; }

/* Segments over vectors or one number, all in the sample's slots; and over vectors whose inputs are read from planes, and
 * outputs written there, as they come. */
#define ROWS_ARGUMENTS vec *restrict m
#define ROWS_INPUT(p, j, slot) DG_RELOAD(m[slot])
#define ROWS_OUTPUT(p, j, slot) m[slot]
#define ONE_ARGUMENTS real *restrict m
#define ONE_INPUT ROWS_INPUT
#define ONE_OUTPUT ROWS_OUTPUT
#define PLANES_ARGUMENTS vec *restrict m, const real *const *in, real *const *out, long in_stride, long out_stride
#define PLANES_INPUT(p, j, slot) DG_RELOAD(*(unaligned *)(in[p] + j * in_stride))
#define PLANES_OUTPUT(p, j, slot) *(unaligned *)(out[p] + j * out_stride)

#endif
