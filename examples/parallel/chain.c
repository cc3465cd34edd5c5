/* The loops of chain.h for a vector of samples at a time, a lane each. Arguments as in loops.py; all functions
 * return 0, or 1 if a result is not finite. `work` holds at least NAME_work(links) vectors and is aligned to them. */
#include "dynagate_simd.h"

typedef vec *vecs;
#define DG_ALL(x) ((vec){0} + (x))
#define DG_LOOP static
#include "chain.h"

/* Rows of samples to vectors and back; of fewer than DG_LANES rows the last one fills the other lanes. */
static void read_rows(const real *from, long links, int rows, vec *to) {
    long i = 0;
    if (rows == DG_LANES)
        for (; i + DG_PART <= links; i += DG_PART) dg_read_columns(from + i, links, DG_PART, DG_PART, to + i);
    for (; i < links; i++)
        for (int lane = 0; lane < DG_LANES; lane++) to[i][lane] = from[(lane < rows ? lane : rows - 1) * links + i];
}

static void write_rows(const vec *from, long links, int rows, real *to) {
    long i = 0;
    if (rows == DG_LANES)
        for (; i + DG_PART <= links; i += DG_PART) {
            vec part[DG_PART];
            memcpy(part, from + i, sizeof part);
            dg_transpose(part, DG_PART);
            for (int k = 0; k < DG_PART; k++)
                for (int p = 0; p < DG_LANES / DG_PART; p++)
                    dg_store_part(to + (k + p * DG_PART) * links + i, part[k], DG_PART, p, DG_PART);
        }
    for (; i < links; i++)
        for (int lane = 0; lane < rows; lane++) to[lane * links + i] = from[i][lane];
}

static state read_state(const chain *c, const real *q, const real *qd, const real *tau, int rows, vec *work) {
    const long n = c->links;
    const state s = {work, work + 2 * n, work + 3 * n, work + 4 * n};
    read_rows(q, n, rows, s.qdd);
    for (long i = 0; i < n; i++) {
        if (c->slides[i])
            s.turn[2 * i] = s.turn[2 * i + 1] = s.qdd[i];
        else
            dg_sincos(s.qdd[i], &s.turn[2 * i + 1], &s.turn[2 * i]);
    }
    read_rows(qd, n, rows, s.rate);
    read_rows(tau, n, rows, s.torque);
    return s;
}

#define ALGORITHM(name, NAME) \
    long DG_NAME(name##_work)(long links) { return STATE_WORK(links) + NAME##_WORK(links); } \
    int DG_NAME(name)(const chain *c, const real *q, const real *qd, const real *tau, real *qdd, long batch, \
                      vec *work) { \
        dg_clear_faults(); \
        for (long b = 0; b < batch; b += DG_LANES) { \
            const int rows = batch - b < DG_LANES ? (int)(batch - b) : DG_LANES; \
            const long at = b * c->links; \
            const state s = read_state(c, q + at, qd + at, tau + at, rows, work); \
            name(c, &s, work + STATE_WORK(c->links)); \
            write_rows(s.qdd, c->links, rows, qdd + at); \
        } \
        return dg_faults(); \
    }
ALGORITHM(jsiia, JSIIA)
ALGORITHM(abia, ABIA)
ALGORITHM(cfa, CFA)

/* M (batch, links, links), its lower triangle alone, and the net torque (batch, links), for a solver elsewhere. */
long DG_NAME(mass_work)(long links) { return STATE_WORK(links) + JSIIA_WORK(links); }
int DG_NAME(mass)(const chain *c, const real *q, const real *qd, const real *tau, real *m, real *net, long batch,
                  vec *work) {
    const long n = c->links;
    dg_clear_faults();
    for (long b = 0; b < batch; b += DG_LANES) {
        const int rows = batch - b < DG_LANES ? (int)(batch - b) : DG_LANES;
        const state s = read_state(c, q + b * n, qd + b * n, tau + b * n, rows, work);
        vec *packed = work + STATE_WORK(n), *rest = packed + n * (n + 1) / 2;
        mass_matrix(c, &s, packed, rest);
        net_torque(c, &s, s.qdd, rest);
        write_rows(s.qdd, n, rows, net + b * n);
        for (long i = 0; i < n; i++)
            for (int lane = 0; lane < rows; lane++)
                for (long j = 0; j <= i; j++) m[((b + lane) * n + i) * n + j] = packed[i * (i + 1) / 2 + j][lane];
    }
    return dg_faults();
}

int DG_NAME(lanes)(void) { return DG_LANES; }
