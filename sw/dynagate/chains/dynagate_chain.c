/* Forward dynamics of serial chains: loops over links and blocks for a vector of samples at a time, a lane each. The
 * steps that they call are generated (steps.py). Arguments as in batched.py; all functions return 0, or 1 if a result is
 * not finite. `work` holds at least NAME_work(links) vectors and is aligned to them. */
#include "dynagate_simd.h"
#include "steps.h"

typedef struct {
    long links;
    const uint8_t *slides; /* per link */
    const real *numbers;   /* LINK_NUMBERS per link */
    const real *blocks;    /* BLOCK_NUMBERS per link; the constraint force algorithm alone reads them */
    const real *base;      /* 6: the base's acceleration, less gravity */
} chain;

#define STEP(name, i, ...) \
    do { \
        if (c->slides[i]) \
            name##_prismatic(__VA_ARGS__); \
        else \
            name##_revolute(__VA_ARGS__); \
    } while (0)
#define LINK(i) (c->numbers + (i) * LINK_NUMBERS)
#define BLOCKS(i) (c->blocks + (i) * BLOCK_NUMBERS)
#define TRIANGLE (DG_BLOCK * (DG_BLOCK + 1) / 2)
#define SQUARE (DG_BLOCK * DG_BLOCK)
#define KEPT (DG_BLOCK * (DG_BLOCK - 1) / 2 + DG_BLOCK + SQUARE + DG_BLOCK) /* of a block in Thomas' recursion */

/* What every algorithm reads, and its results: the samples of one vector. */
typedef struct {
    vec *turn, *rate, *torque, *qdd; /* 2 per link, then 1 each */
} state;
#define STATE_WORK(links) (5 * (links))

static const vec ZEROS[27];

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

static void base_acceleration(const chain *c, vec *a) {
    for (int k = 0; k < 6; k++) a[k] = (vec){0} + c->base[k];
}

static void velocities(const chain *c, const state *s, vec *v) {
    for (long i = 0; i < c->links; i++)
        STEP(velocity, i, LINK(i), s->turn + 2 * i, i ? v + 6 * (i - 1) : ZEROS, s->rate + i, v + 6 * i);
}

/* Articulated bodies. */
#define ABA_WORK(n) (14 * (n) + 54)
static void aba(const chain *c, const state *s, vec *work) {
    const long n = c->links;
    vec *v = work, *kept = v + 6 * n, *carry = kept + 8 * n;
    velocities(c, s, v);
    if (n > 1) {
        const long i = n - 1;
        STEP(aba_tip, i, LINK(i), s->turn + 2 * i, v + 6 * i, s->rate + i, s->torque + i, kept + 8 * i, carry);
    } else {
        memcpy(carry, ZEROS, sizeof ZEROS);
    }
    for (long i = n - 2; i > 0; i--)
        STEP(aba_up, i, LINK(i), s->turn + 2 * i, v + 6 * i, s->rate + i, s->torque + i, carry, kept + 8 * i, carry);
    STEP(aba_root, 0, LINK(0), s->turn, v, s->rate, s->torque, carry, kept);
    vec a[6];
    base_acceleration(c, a);
    for (long i = 0; i < n; i++)
        STEP(aba_down, i, LINK(i), s->turn + 2 * i, v + 6 * i, s->rate + i, kept + 8 * i, a, s->qdd + i, a);
}

/* The torque beyond what holds the joints' accelerations at zero. */
#define NET_WORK(n) (6 * (n) + 12)
static void net_torque(const chain *c, const state *s, vec *net, vec *work) {
    vec *f = work, v[6], a[6];
    memcpy(v, ZEROS, sizeof v);
    base_acceleration(c, a);
    for (long i = 0; i < c->links; i++)
        STEP(bias_down, i, LINK(i), s->turn + 2 * i, v, a, s->rate + i, v, a, f + 6 * i);
    for (long i = c->links - 1; i >= 0; i--) {
        vec up[6];
        STEP(bias_up, i, LINK(i), s->turn + 2 * i, f + 6 * i, s->rate + i, s->torque + i, net + i, up);
        if (i)
            for (int k = 0; k < 6; k++) f[6 * (i - 1) + k] += up[k];
    }
}

/* M's lower triangle by inverse dynamics of unit accelerations, row by row packed: entry (i, j) at i (i + 1) / 2 + j. */
#define MASS_WORK(n) (18 * (n))
static void mass_matrix(const chain *c, const state *s, vec *m, vec *work) {
    const long n = c->links;
    vec *pose = work, *f = pose + 12 * n;
    for (long i = 0; i < n; i++) STEP(rotation, i, LINK(i), s->turn + 2 * i, pose + 12 * i);
    for (long j = 0; j < n; j++) {
        vec a[6];
        STEP(unit_begin, j, LINK(j), a, f + 6 * j);
        for (long i = j + 1; i < n; i++) unit_down(LINK(i), pose + 12 * i, a, a, f + 6 * i);
        for (long i = n - 1; i >= j; i--) {
            m[i * (i + 1) / 2 + j] = f[6 * i + (c->slides[i] ? 5 : 2)];
            if (i > j) unit_up(pose + 12 * i, f + 6 * i, f + 6 * (i - 1), f + 6 * (i - 1));
        }
        m[j * (j + 1) / 2 + j] += LINK(j)[22];
    }
}

/* x = M^-1 x by L D L^T, in place. */
static void solve_dense(long n, vec *m, vec *x) {
#define M(i, j) m[(i) * ((i) + 1) / 2 + (j)]
    for (long k = 0; k < n; k++) {
        const vec inverse = 1 / M(k, k);
        for (long i = k + 1; i < n; i++) {
            const vec l = M(i, k) * inverse;
            for (long j = k + 1; j <= i; j++) M(i, j) -= l * M(j, k);
            x[i] -= l * x[k];
        }
        M(k, k) = inverse;
    }
    for (long k = n - 1; k >= 0; k--) {
        vec sum = x[k];
        for (long i = k + 1; i < n; i++) sum -= M(i, k) * x[i];
        x[k] = sum * M(k, k);
    }
#undef M
}

#define JSIIA_WORK(n) ((n) * ((n) + 1) / 2 + MASS_WORK(n) + NET_WORK(n))
static void jsiia(const chain *c, const state *s, vec *work) {
    const long n = c->links;
    vec *m = work, *rest = m + n * (n + 1) / 2;
    mass_matrix(c, s, m, rest);
    net_torque(c, s, s->qdd, rest);
    solve_dense(n, m, s->qdd);
}

/* Articulated inertias, then the square factors of M^-1 as two linear recursions. */
#define ABIA_WORK(n) (9 * (n) + NET_WORK(n) + 42)
static void abia(const chain *c, const state *s, vec *work) {
    const long n = c->links;
    vec *gain = work, *net = gain + 7 * n, *drive = net + n, *rest = drive + n;
    net_torque(c, s, net, rest);
    vec carry[21], z[6], a[6];
    memcpy(carry, ZEROS, sizeof carry);
    memcpy(z, ZEROS, sizeof z);
    memcpy(a, ZEROS, sizeof a);
    for (long i = n - 1; i >= 0; i--)
        STEP(abia_inertia, i, LINK(i), s->turn + 2 * i, carry, gain + 7 * i, carry);
    for (long i = n - 1; i >= 0; i--)
        STEP(abia_back, i, LINK(i), s->turn + 2 * i, gain + 7 * i, z, net + i, drive + i, z);
    for (long i = 0; i < n; i++)
        STEP(abia_forth, i, LINK(i), s->turn + 2 * i, gain + 7 * i, drive + i, a, s->qdd + i, a);
}

/* The block tridiagonal system of the constraint forces, and what is needed to get accelerations from them. */
typedef struct {
    vec *d, *u, *r;                          /* blocks: TRIANGLE, SQUARE, DG_BLOCK */
    vec *free, *row, *row_next, *row_before; /* accelerations: without forces, and by forces of links i, i + 1, i - 1 */
} forces;
#define FORCES_WORK(n) ((TRIANGLE + SQUARE + 4 * DG_BLOCK + 1) * (n))
static forces force_system(const chain *c, const state *s, const vec *net, vec *work) {
    const long n = c->links;
    forces f;
    f.d = work, f.u = f.d + TRIANGLE * n, f.r = f.u + SQUARE * n, f.free = f.r + DG_BLOCK * n;
    f.row = f.free + n, f.row_next = f.row + DG_BLOCK * n, f.row_before = f.row_next + DG_BLOCK * n;
    for (long i = 0; i < n; i++)
        STEP(cfa_own, i, LINK(i), BLOCKS(i), s->turn + 2 * i, net + i, f.d + TRIANGLE * i, f.r + DG_BLOCK * i,
             f.free + i, f.row + DG_BLOCK * i);
    for (long i = 0; i + 1 < n; i++) {
        vec *const r = f.r + DG_BLOCK * i, *const free = f.free + i;
#define NEXT(other) \
    STEP(cfa_next_##other, i, LINK(i), BLOCKS(i), s->turn + 2 * i + 2, LINK(i + 1), net + i, r, r + DG_BLOCK, free, \
         free + 1, f.u + SQUARE * i, r, r + DG_BLOCK, free, free + 1, f.row_next + DG_BLOCK * i, \
         f.row_before + DG_BLOCK * (i + 1))
        if (c->slides[i + 1])
            NEXT(prismatic);
        else
            NEXT(revolute);
#undef NEXT
    }
    return f;
}

static void accelerations(long n, const forces *f, const vec *x, vec *qdd) {
    for (long i = 0; i < n; i++) {
        vec sum = f->free[i];
        for (int k = 0; k < DG_BLOCK; k++) {
            sum += f->row[DG_BLOCK * i + k] * x[DG_BLOCK * i + k];
            if (i + 1 < n) sum += f->row_next[DG_BLOCK * i + k] * x[DG_BLOCK * (i + 1) + k];
            if (i) sum += f->row_before[DG_BLOCK * i + k] * x[DG_BLOCK * (i - 1) + k];
        }
        qdd[i] = sum;
    }
}

/* Odd-even elimination; a step reads one copy of d, u, r and leaves the next in the other. */
#define CFA_WORK(n) (NET_WORK(n) + (n) + FORCES_WORK(n) + (TRIANGLE + SQUARE + 2 * DG_BLOCK) * (n))
static void cfa(const chain *c, const state *s, vec *work) {
    const long n = c->links;
    vec *net = work, *rest = net + n;
    net_torque(c, s, net, rest);
    const forces f = force_system(c, s, net, rest + NET_WORK(n));
    vec *spare = rest + NET_WORK(n) + FORCES_WORK(n), *x = spare + (TRIANGLE + SQUARE + DG_BLOCK) * n;
    vec *d = f.d, *u = f.u, *r = f.r;
    vec *d_new = spare, *u_new = d_new + TRIANGLE * n, *r_new = u_new + SQUARE * n;
    for (long apart = 1; apart < n; apart *= 2) {
        memcpy(d_new, d, TRIANGLE * n * sizeof *d);
        memcpy(r_new, r, DG_BLOCK * n * sizeof *r);
        for (long j = 0; j < n; j++) {
            const long i = j - apart, k = j + apart;
            const vec *dj = d + TRIANGLE * j, *rj = r + DG_BLOCK * j;
            vec *di = d_new + TRIANGLE * i, *ri = r_new + DG_BLOCK * i;
            vec *dk = d_new + TRIANGLE * k, *rk = r_new + DG_BLOCK * k;
            if (i >= 0 && k < n)
                eliminate_both(dj, rj, u + SQUARE * i, u + SQUARE * j, di, ri, dk, rk, di, ri, dk, rk,
                               u_new + SQUARE * i);
            else if (i >= 0)
                eliminate_before(dj, rj, u + SQUARE * i, di, ri, di, ri);
            else if (k < n)
                eliminate_after(dj, rj, u + SQUARE * j, dk, rk, dk, rk);
        }
        vec *swap;
        swap = d, d = d_new, d_new = swap;
        swap = u, u = u_new, u_new = swap;
        swap = r, r = r_new, r_new = swap;
    }
    for (long i = 0; i < n; i++) block_solve(d + TRIANGLE * i, r + DG_BLOCK * i, x + DG_BLOCK * i);
    accelerations(n, &f, x, s->qdd);
}

/* The same by Thomas' recursion. */
#define CFA_SERIAL_WORK(n) (NET_WORK(n) + (n) + FORCES_WORK(n) + (KEPT + DG_BLOCK) * (n))
static void cfa_serial(const chain *c, const state *s, vec *work) {
    const long n = c->links;
    vec *net = work, *rest = net + n;
    net_torque(c, s, net, rest);
    const forces f = force_system(c, s, net, rest + NET_WORK(n));
    vec *kept = rest + NET_WORK(n) + FORCES_WORK(n), *x = kept + KEPT * n;
    for (long i = 0; i + 1 < n; i++) {
        vec *d = f.d + TRIANGLE * (i + 1), *r = f.r + DG_BLOCK * (i + 1);
        thomas_down(f.d + TRIANGLE * i, f.r + DG_BLOCK * i, f.u + SQUARE * i, d, r, kept + KEPT * i, d, r);
    }
    block_solve(f.d + TRIANGLE * (n - 1), f.r + DG_BLOCK * (n - 1), x + DG_BLOCK * (n - 1));
    for (long i = n - 2; i >= 0; i--) thomas_up(kept + KEPT * i, x + DG_BLOCK * (i + 1), x + DG_BLOCK * i);
    accelerations(n, &f, x, s->qdd);
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
ALGORITHM(aba, ABA)
ALGORITHM(jsiia, JSIIA)
ALGORITHM(abia, ABIA)
ALGORITHM(cfa, CFA)
ALGORITHM(cfa_serial, CFA_SERIAL)

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
