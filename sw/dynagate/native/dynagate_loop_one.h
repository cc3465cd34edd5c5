/* What the generated loops of one sample share, in C and CUDA. DG_INLINE and UNROLL(n) are the including file's. */
#ifndef DYNAGATE_LOOP_ONE_H
#define DYNAGATE_LOOP_ONE_H

DG_INLINE void dg_get_real(real *to, const real *rows, long stride, int size) {
    (void)stride;
    UNROLL(256)
    for (int j = 0; j < size; j++) to[j] = rows[j];
}

DG_INLINE void dg_put_real(const real *from, real *rows, long stride, int size) {
    (void)stride;
    UNROLL(256)
    for (int j = 0; j < size; j++) rows[j] = from[j];
}

/* Where a sample goes on: |residual| is not at most the tolerance, 1 where so and else 0. NaN goes on to the last iteration. */
DG_INLINE real dg_above_real(real residual, real tolerance, real active) {
    return active != 0 && !(residual <= tolerance && -residual <= tolerance);
}
DG_INLINE int dg_any_real(real x) { return x != 0; }
DG_INLINE real dg_where_real(real active, real x, real otherwise) { return active != 0 ? x : otherwise; }
DG_INLINE real dg_size_real(real x) { return x < 0 ? -x : x; }
#endif
