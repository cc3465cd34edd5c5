/* Forward dynamics of serial chains as loops over links and blocks, for a `vec` of samples: a vector with a lane each, or
 * one sample. The steps that they call are generated (steps.py).
 *
 * Who includes this says: real, vec; vecs, values that an algorithm keeps, indexed as a pointer to vec is; DG_ALL(x), a vec
 * of one number; DG_STEP, DG_READ and DG_WRITE of the steps; DG_CONSTANT of constants, DG_LOOP of functions. `work` holds
 * NAME_WORK(links) vecs besides STATE_WORK(links). */
#include "steps.h"

typedef struct {
    long links;
    const uint8_t *slides; /* per link */
    const real *numbers;   /* LINK_NUMBERS per link */
    const real *blocks;    /* BLOCK_NUMBERS per link; the constraint force algorithm alone reads them */
    const real *base;      /* 6: the base's acceleration, less gravity */
    long refined;          /* whether accelerations by constraint forces are corrected once */
} chain;

#define STEP(name, i, ...) \
    do { \
        if (c->slides[i]) \
            name##_prismatic(__VA_ARGS__); \
        else \
            name##_revolute(__VA_ARGS__); \
    } while (0)
#define CLEAR(x, count) \
    do { \
        for (long k_ = 0; k_ < (count); k_++) (x)[k_] = DG_ALL(0); \
    } while (0)
#define COPY(to, from, count) \
    do { \
        for (long k_ = 0; k_ < (count); k_++) (to)[k_] = (from)[k_]; \
    } while (0)
#define EXCHANGE(x, y) \
    do { \
        const vecs x_ = x; \
        x = y, y = x_; \
    } while (0)
#define BASE_ACCELERATION(a) \
    do { \
        for (int k_ = 0; k_ < 6; k_++) (a)[k_] = DG_ALL(c->base[k_]); \
    } while (0)
#define LINK(i) (c->numbers + (i) * LINK_NUMBERS)
#define BLOCKS(i) (c->blocks + (i) * BLOCK_NUMBERS)
#define TRIANGLE (DG_BLOCK * (DG_BLOCK + 1) / 2)
#define SQUARE (DG_BLOCK * DG_BLOCK)

/* What every algorithm reads, and its results: the samples of one vector. */
typedef struct {
    vecs turn, rate, torque, qdd; /* 2 per link, then 1 each */
} state;
#define STATE_WORK(links) (5 * (links))

/* The torque beyond what holds the joints' accelerations at zero. */
#define NET_WORK(n) (6 * (n) + 12)
DG_LOOP void net_torque(const chain *c, const state *s, vecs net, vecs work) {
    vecs f = work;
    vec v[6], a[6];
    CLEAR(v, 6);
    BASE_ACCELERATION(a);
    for (long i = 0; i < c->links; i++)
        STEP(bias_down, i, LINK(i), s->turn + 2 * i, v, a, s->rate + i, v, a, f + 6 * i);
    for (long i = c->links - 1; i >= 0; i--) {
        vec up[6];
        STEP(bias_up, i, LINK(i), s->turn + 2 * i, f + 6 * i, s->rate + i, s->torque + i, net + i, up);
        if (i)
            for (int k = 0; k < 6; k++) f[6 * (i - 1) + k] += up[k];
    }
}

/* The torque that the accelerations in s leave over: by inverse dynamics, which cancels far less than constraint forces. */
DG_LOOP void left_over(const chain *c, const state *s, vecs net, vecs work) {
    vecs f = work;
    vec v[6], a[6];
    CLEAR(v, 6);
    BASE_ACCELERATION(a);
    for (long i = 0; i < c->links; i++)
        STEP(accelerated_down, i, LINK(i), s->turn + 2 * i, v, a, s->rate + i, s->qdd + i, v, a, f + 6 * i);
    for (long i = c->links - 1; i >= 0; i--) {
        vec up[6], torque[1] = {s->torque[i] - LINK(i)[22] * s->qdd[i]};
        STEP(bias_up, i, LINK(i), s->turn + 2 * i, f + 6 * i, s->rate + i, torque, net + i, up);
        if (i)
            for (int k = 0; k < 6; k++) f[6 * (i - 1) + k] += up[k];
    }
}

/* M's lower triangle by inverse dynamics of unit accelerations, row by row packed: entry (i, j) at i (i + 1) / 2 + j. */
#define MASS_WORK(n) (18 * (n))
DG_LOOP void mass_matrix(const chain *c, const state *s, vecs m, vecs work) {
    const long n = c->links;
    vecs pose = work, f = pose + 12 * n;
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
DG_LOOP void solve_dense(long n, vecs m, vecs x) {
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
DG_LOOP void jsiia(const chain *c, const state *s, vecs work) {
    const long n = c->links;
    vecs m = work, rest = m + n * (n + 1) / 2;
    mass_matrix(c, s, m, rest);
    net_torque(c, s, s->qdd, rest);
    solve_dense(n, m, s->qdd);
}

/* Articulated inertias, then the square factors of M^-1 as two linear recursions. */
#define ABIA_WORK(n) (9 * (n) + NET_WORK(n) + 42)
DG_LOOP void abia(const chain *c, const state *s, vecs work) {
    const long n = c->links;
    vecs gain = work, net = gain + 7 * n, drive = net + n, rest = drive + n;
    net_torque(c, s, net, rest);
    vec carry[21], z[6], a[6];
    CLEAR(carry, 21);
    CLEAR(z, 6);
    CLEAR(a, 6);
    for (long i = n - 1; i >= 0; i--)
        STEP(abia_inertia, i, LINK(i), s->turn + 2 * i, carry, gain + 7 * i, carry);
    for (long i = n - 1; i >= 0; i--)
        STEP(abia_back, i, LINK(i), s->turn + 2 * i, gain + 7 * i, z, net + i, drive + i, z);
    for (long i = 0; i < n; i++)
        STEP(abia_forth, i, LINK(i), s->turn + 2 * i, gain + 7 * i, drive + i, a, s->qdd + i, a);
}

/* The block tridiagonal system of the constraint forces, and what is needed to get accelerations from them. */
typedef struct {
    vecs d, u, r;                         /* blocks: TRIANGLE, SQUARE, DG_BLOCK */
    vecs free, row, row_next, row_before; /* accelerations: without forces, and by forces of links i, i + 1, i - 1 */
} forces;
#define FORCES_WORK(n) ((TRIANGLE + SQUARE + 4 * DG_BLOCK + 1) * (n))
DG_LOOP forces force_system(const chain *c, const state *s, vecs net, vecs work) {
    const long n = c->links;
    forces f;
    f.d = work, f.u = f.d + TRIANGLE * n, f.r = f.u + SQUARE * n, f.free = f.r + DG_BLOCK * n;
    f.row = f.free + n, f.row_next = f.row + DG_BLOCK * n, f.row_before = f.row_next + DG_BLOCK * n;
    for (long i = 0; i < n; i++)
        STEP(cfa_own, i, LINK(i), BLOCKS(i), s->turn + 2 * i, net + i, f.d + TRIANGLE * i, f.r + DG_BLOCK * i,
             f.free + i, f.row + DG_BLOCK * i);
    for (long i = 0; i + 1 < n; i++) {
        const vecs r = f.r + DG_BLOCK * i, free = f.free + i;
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

DG_LOOP void accelerations(long n, const forces *f, vecs x, vecs qdd) {
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
#define CFA_SOLVE_WORK(n) (FORCES_WORK(n) + (TRIANGLE + SQUARE + 2 * DG_BLOCK) * (n))
DG_LOOP void cfa_solve(const chain *c, const state *s, vecs net, vecs qdd, vecs work) {
    const long n = c->links;
    const forces f = force_system(c, s, net, work);
    vecs spare = work + FORCES_WORK(n), x = spare + (TRIANGLE + SQUARE + DG_BLOCK) * n;
    vecs d = f.d, u = f.u, r = f.r;
    vecs d_new = spare, u_new = d_new + TRIANGLE * n, r_new = u_new + SQUARE * n;
    for (long apart = 1; apart < n; apart *= 2) {
        COPY(d_new, d, TRIANGLE * n);
        COPY(r_new, r, DG_BLOCK * n);
        for (long j = 0; j < n; j++) {
            const long i = j - apart, k = j + apart;
            const vecs dj = d + TRIANGLE * j, rj = r + DG_BLOCK * j;
            const vecs di = d_new + TRIANGLE * i, ri = r_new + DG_BLOCK * i;
            const vecs dk = d_new + TRIANGLE * k, rk = r_new + DG_BLOCK * k;
            if (i >= 0 && k < n)
                eliminate_both(dj, rj, u + SQUARE * i, u + SQUARE * j, di, ri, dk, rk, di, ri, dk, rk,
                               u_new + SQUARE * i);
            else if (i >= 0)
                eliminate_before(dj, rj, u + SQUARE * i, di, ri, di, ri);
            else if (k < n)
                eliminate_after(dj, rj, u + SQUARE * j, dk, rk, dk, rk);
        }
        EXCHANGE(d, d_new);
        EXCHANGE(u, u_new);
        EXCHANGE(r, r_new);
    }
    for (long i = 0; i < n; i++) block_solve(d + TRIANGLE * i, r + DG_BLOCK * i, x + DG_BLOCK * i);
    accelerations(n, &f, x, qdd);
}

/* Forces are up to 1e6 times what they leave of the accelerations, where joints slide or have rotors: then once more, for
 * the torque that is left over. */
#define CFA_WORK(n) (2 * (n) + NET_WORK(n) + CFA_SOLVE_WORK(n))
#define BY_FORCES(name) \
    DG_LOOP void name(const chain *c, const state *s, vecs work) { \
        const long n = c->links; \
        vecs net = work, more = net + n, rest = more + n; \
        net_torque(c, s, net, rest); \
        name##_solve(c, s, net, s->qdd, rest + NET_WORK(n)); \
        if (!c->refined) return; \
        left_over(c, s, net, rest); \
        name##_solve(c, s, net, more, rest + NET_WORK(n)); \
        for (long i = 0; i < n; i++) s->qdd[i] += more[i]; \
    }
BY_FORCES(cfa)
