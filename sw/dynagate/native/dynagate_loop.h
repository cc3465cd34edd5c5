/* What the generated loops of DG_LANES samples share.
 *
 * Values of an iteration lie in an array of vectors. `rows` are the numbers of samples in memory, `stride` from one to the next. */
#ifndef DYNAGATE_LOOP_H
#define DYNAGATE_LOOP_H
#define UNROLL(n)
#include "dynagate_loop_one.h"

#define DG_CONSTANT static const
/* A number of all samples. */
#define DG_ALL(x) DG_PASTE3(dg_all_, NUMBER)(x)
DG_INLINE real dg_all_real(real x) { return x; }
DG_INLINE vec dg_all_vec(real x) {
    vec v;
    for (int j = 0; j < DG_LANES; j++) v[j] = x;
    return v;
}

/* `size` entries of DG_LANES samples into vectors: columns of a few entries at a time. */
DG_INLINE void dg_get_vec(vec *to, const real *rows, long stride, int size) {
    if (!stride) { /* one for all samples */
        for (int j = 0; j < size; j++) to[j] = (vec){0} + rows[j];
        return;
    }
    int j = 0;
#define COLUMNS(width) \
    for (; j + width <= size; j += width) dg_read_columns(rows + j, stride, width, width, to + j);
    if (DG_PART >= 8) { COLUMNS(8) }
    if (DG_PART >= 4 && j < size && size >= 4) { /* the last ones may be read twice */
        COLUMNS(4)
        if (j < size) dg_read_columns(rows + size - 4, stride, 4, 4, to + size - 4);
        return;
    }
    COLUMNS(2)
#undef COLUMNS
    if (j < size && size >= 2) dg_read_columns(rows + size - 2, stride, 2, 2, to + size - 2);
    else if (j < size)
        for (int lane = 0; lane < DG_LANES; lane++) to[j][lane] = rows[lane * stride + j];
}

DG_INLINE void dg_put_columns(const vec *from, real *rows, long stride, int width) {
    vec entry[8];
#pragma GCC unroll 8
    for (int i = 0; i < width; i++) entry[i] = from[i];
    dg_transpose(entry, width);
#pragma GCC unroll 16
    for (int p = 0; p < DG_LANES / width; p++)
#pragma GCC unroll 8
        for (int i = 0; i < width; i++) dg_store_part(rows + (p * width + i) * stride, entry[i], width, p, width);
}

/* Vectors out to `size` entries of DG_LANES samples. */
DG_INLINE void dg_put_vec(const vec *from, real *rows, long stride, int size) {
    int j = 0;
#define COLUMNS(width) \
    for (; j + width <= size; j += width) dg_put_columns(from + j, rows + j, stride, width);
    if (DG_PART >= 8) { COLUMNS(8) }
    if (DG_PART >= 4 && j < size && size >= 4) { /* the last ones may be written twice */
        COLUMNS(4)
        if (j < size) dg_put_columns(from + size - 4, rows + size - 4, stride, 4);
        return;
    }
    COLUMNS(2)
#undef COLUMNS
    if (j < size && size >= 2) dg_put_columns(from + size - 2, rows + size - 2, stride, 2);
    else if (j < size)
        for (int lane = 0; lane < DG_LANES; lane++) rows[lane * stride + j] = from[j][lane];
}

DG_INLINE vec dg_above_vec(vec residual, real tolerance, vec active) {
    vec on;
    for (int j = 0; j < DG_LANES; j++) on[j] = active[j] != 0 && !(residual[j] <= tolerance && -residual[j] <= tolerance);
    return on;
}
DG_INLINE int dg_any_vec(vec x) {
    for (int j = 0; j < DG_LANES; j++)
        if (x[j] != 0) return 1;
    return 0;
}
DG_INLINE vec dg_where_vec(vec active, vec x, vec otherwise) {
    const ivec on = active != 0;
    return (vec)(((ivec)x & on) | ((ivec)otherwise & ~on));
}
DG_INLINE vec dg_size_vec(vec x) {
    for (int j = 0; j < DG_LANES; j++) x[j] = x[j] < 0 ? -x[j] : x[j];
    return x;
}
#endif
