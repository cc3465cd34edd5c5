/* The instructions on a block of DG_N vectors. Included for each length of blocks, so that loops unroll.
 *
 * Each instruction ends with its own jump to the next one, which the processor predicts better than a shared jump.
 * dg_run_N returns zero, or NaN where an input or a result is infinite or NaN. */
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
#define NEXT                                                                                          \
    if (++i == end) return doubt;                                                                     \
    d = memory + i->to * n, x = memory + i->a * n, y = memory + i->b * n, z = memory + i->c * n;      \
    goto *labels[i->code];
#define EACH(value)                            \
    for (long k = 0; k < n; k++) d[k] = value; \
    NEXT
#define WITH(name, number) const vec name = DG_VEC(p->constants[number]);

static vec NAMED(dg_run_, DG_N)(const dg_program *p, const dg_block *b, vec *memory) {
    const long n = DG_N;
    vec doubt = {0};
    const void *const labels[] = {
        [ADD] = &&L_ADD, [SUB] = &&L_SUB, [ADD_CONST] = &&L_ADD_CONST, [NEG] = &&L_NEG, [MUL] = &&L_MUL,
        [MUL_CONST] = &&L_MUL_CONST, [RECIPROCAL] = &&L_RECIPROCAL, [CONST] = &&L_CONST, [SIN] = &&L_SIN,
        [COS] = &&L_COS, [EXP] = &&L_EXP, [SQRT] = &&L_SQRT, [NOISE] = &&L_NOISE, [SELECT] = &&L_SELECT,
        [SINCOS] = &&L_SINCOS, [STORE] = &&L_STORE, [WATCH] = &&L_WATCH, [FMA] = &&L_FMA, [FMS] = &&L_FMS,
        [FNMA] = &&L_FNMA, [FMA_Y] = &&L_FMA_Y, [FMS_Y] = &&L_FMS_Y, [FNMA_Y] = &&L_FNMA_Y,
        [FMA_Z] = &&L_FMA_Z, [FMA_YZ] = &&L_FMA_YZ
    };
    const dg_instruction *i = p->code - 1, *const end = p->code + p->count;
    vec *d;
    const vec *x, *y, *z;
    NEXT
    L_ADD: EACH(x[k] + y[k])
    L_SUB: EACH(x[k] - y[k])
    L_ADD_CONST: { WITH(u, i->b) EACH(x[k] + u) }
    L_NEG: EACH(-x[k])
    L_MUL: EACH(x[k] * y[k])
    L_MUL_CONST: { WITH(u, i->b) EACH(x[k] * u) }
    L_RECIPROCAL: EACH(1 / x[k])
    L_CONST: { WITH(u, i->a) EACH(u) }
    L_SIN: EACH(dg_sin_vec(x[k], x[k], x[k]))
    L_COS: EACH(dg_cos_vec(x[k], x[k], x[k]))
    L_EXP: EACH(dg_exp_vec(x[k], x[k], x[k]))
    L_SQRT: EACH(dg_sqrt_vec(x[k], x[k], x[k]))
    L_NOISE: EACH(dg_noise_vec(x[k], y[k], z[k]))
    L_SELECT: EACH(dg_select_vec(x[k], y[k], z[k]))
    L_SINCOS:
        for (long k = 0; k < n; k++) dg_sincos(x[k], d + k, memory + i->b * n + k);
        NEXT
    L_STORE: dg_write(p, b, n, i->to, i->b, x); NEXT
    L_WATCH:
        for (long k = 0; k < n; k++) doubt += x[k] * 0;
        NEXT
    L_FMA: EACH(dg_fma_vec(x[k], y[k], z[k]))
    L_FMS: EACH(dg_fms_vec(x[k], y[k], z[k]))
    L_FNMA: EACH(dg_fnma_vec(x[k], y[k], z[k]))
    L_FMA_Y: { WITH(u, i->b) EACH(dg_fma_vec(x[k], u, z[k])) }
    L_FMS_Y: { WITH(u, i->b) EACH(dg_fms_vec(x[k], u, z[k])) }
    L_FNMA_Y: { WITH(u, i->b) EACH(dg_fnma_vec(x[k], u, z[k])) }
    L_FMA_Z: { WITH(w, i->c) EACH(dg_fma_vec(x[k], y[k], w)) }
    L_FMA_YZ: { WITH(u, i->b) WITH(w, i->c) EACH(dg_fma_vec(x[k], u, w)) }
}

#undef DG_N
#undef JOINED
#undef NAMED
#undef NEXT
#undef EACH
#undef WITH
