/* Forward dynamics of a serial chain by a warp: its lanes share the links. Recursions along the chain are scans, blocks of
 * constraint forces are eliminated odd and even. The steps of a link are generated (chains/steps.py); values of a chain lie in
 * the block's shared memory.
 *
 * Between two MEETs no lane reads what another one writes, so the lanes' order does not matter. As host code they
 * take turns; with last_lane_first set, every bit of the results must be the same. */
#ifdef __CUDACC__
#define ON_CARD static __device__
#define EACH(i, count) for (int i = threadIdx.x; i < (count); i += LANES)
#define MEET __syncwarp()
#else
#define ON_CARD static
extern "C" {
int last_lane_first = 0;
}
#define EACH(i, count) \
    for (int turn_ = 0, of_ = (count), i; turn_ < of_ && (i = last_lane_first ? of_ - 1 - turn_ : turn_, true); turn_++)
#define MEET
#endif
#define STEP(name, i, ...) \
    do { \
        if (chain_slides[i]) \
            name##_prismatic(__VA_ARGS__); \
        else \
            name##_revolute(__VA_ARGS__); \
    } while (0)
#define LINK(i) (chain_numbers + (i) * LINK_NUMBERS)
#define EXCHANGE(x, y) \
    do { \
        real *const x_ = x; \
        x = y, y = x_; \
    } while (0)

/* Of LINKS links each. */
typedef struct {
    real *turn, *rate, *torque, *qdd, *net; /* 2, then 1 */
    real *pose, *axis;                      /* 12: in the base; 6: of the joint, there */
    real *v, *f;                            /* 6: motions and forces in the base */
    real *spare;                            /* 12 */
    real *rest;                             /* of the algorithm */
} state;
#define STATE_NUMBERS 48

/* Sums of `count` numbers each over the links before a link, or behind it, and its own. Returns where they are. */
ON_CARD real *sums(real *x, real *spare, int count, bool behind) {
    for (int apart = 1; apart < LINKS; apart *= 2) {
        EACH(k, LINKS * count) {
            const int i = k / count, other = behind ? i + apart : i - apart;
            spare[k] = other >= 0 && other < LINKS ? x[k] + x[k + (other - i) * count] : x[k];
        }
        MEET;
        EXCHANGE(x, spare);
    }
    return x;
}

/* Poses of the links in the base from those in their parents, and the joints' axes. */
ON_CARD void place(state *s) {
    EACH(i, LINKS) STEP(rotation, i, LINK(i), s->turn + 2 * i, s->pose + 12 * i);
    MEET;
    for (int apart = 1; apart < LINKS; apart *= 2) {
        EACH(i, LINKS) {
            if (i >= apart)
                compose(s->pose + 12 * (i - apart), s->pose + 12 * i, s->spare + 12 * i);
            else
                for (int k = 0; k < 12; k++) s->spare[12 * i + k] = s->pose[12 * i + k];
        }
        MEET;
        EXCHANGE(s->pose, s->spare);
    }
    EACH(i, LINKS) STEP(axis, i, s->pose + 12 * i, s->axis + 6 * i);
    MEET;
}

/* The torque beyond what the joints' motion takes: at q̈ = 0, or as far as q̈ is known. */
ON_CARD void net_torque(state *s, bool accelerated) {
    EACH(k, 6 * LINKS) s->v[k] = s->axis[k] * s->rate[k / 6];
    MEET;
    real *v = sums(s->v, s->spare, 6, false), *a = v == s->v ? s->spare : s->v;
    EACH(i, LINKS) {
        change(s->axis + 6 * i, s->rate + i, v + 6 * i, a + 6 * i);
        for (int k = 0; k < 6; k++) {
            if (accelerated) a[6 * i + k] += s->axis[6 * i + k] * s->qdd[i];
            if (!i) a[k] += chain_base[k];
        }
    }
    MEET;
    real *const a_sum = sums(a, s->f, 6, false), *const f = a_sum == s->f ? a : s->f;
    EACH(i, LINKS) own_force(LINK(i), s->pose + 12 * i, v + 6 * i, a_sum + 6 * i, f + 6 * i);
    MEET;
    const real *const f_sum = sums(f, v, 6, true);
    EACH(i, LINKS) {
        real along = 0;
        for (int k = 0; k < 6; k++) along += s->axis[6 * i + k] * f_sum[6 * i + k];
        s->net[i] = s->torque[i] - along - LINK(i)[23] * s->rate[i];
        if (accelerated) s->net[i] -= LINK(i)[22] * s->qdd[i];
    }
    MEET;
}

#ifdef BY_FORCES
#define TRIANGLE (DG_BLOCK * (DG_BLOCK + 1) / 2)
#define SQUARE (DG_BLOCK * DG_BLOCK)
#define BLOCKS(i) (chain_blocks + (i) * BLOCK_NUMBERS)
#define ALGORITHM_NUMBERS (LINKS * (2 * (TRIANGLE + SQUARE + DG_BLOCK) + 5 * DG_BLOCK + 2))

/* Accelerations that a net torque makes: constraint forces by odd-even elimination. */
ON_CARD void accelerations(const state *s, real *qdd) {
    real *d = s->rest, *u = d + TRIANGLE * LINKS, *r = u + SQUARE * LINKS;
    real *d_new = r + DG_BLOCK * LINKS, *u_new = d_new + TRIANGLE * LINKS, *r_new = u_new + SQUARE * LINKS;
    real *row = r_new + DG_BLOCK * LINKS, *row_next = row + DG_BLOCK * LINKS, *row_before = row_next + DG_BLOCK * LINKS;
    real *x = row_before + DG_BLOCK * LINKS, *unforced = x + DG_BLOCK * LINKS;
    EACH(i, LINKS)
        STEP(cfa_own, i, LINK(i), BLOCKS(i), s->turn + 2 * i, s->net + i, d + TRIANGLE * i, r + DG_BLOCK * i, unforced + i,
             row + DG_BLOCK * i);
    MEET;
    for (int odd = 0; odd < 2; odd++) { /* a link and the next one: neighbors in turn */
        EACH(h, LINKS / 2) {
            const int i = 2 * h + odd;
            if (i + 1 >= LINKS) continue;
#define NEXT(other) \
    STEP(cfa_next_##other, i, LINK(i), BLOCKS(i), s->turn + 2 * i + 2, LINK(i + 1), s->net + i, r + DG_BLOCK * i, \
         r + DG_BLOCK * (i + 1), unforced + i, unforced + i + 1, u + SQUARE * i, r + DG_BLOCK * i, r + DG_BLOCK * (i + 1), \
         unforced + i, unforced + i + 1, row_next + DG_BLOCK * i, row_before + DG_BLOCK * (i + 1))
            if (chain_slides[i + 1])
                NEXT(prismatic);
            else
                NEXT(revolute);
#undef NEXT
        }
        MEET;
    }
    for (int apart = 1; apart < LINKS; apart *= 2) {
        EACH(k, TRIANGLE * LINKS) d_new[k] = d[k];
        EACH(k, DG_BLOCK * LINKS) r_new[k] = r[k];
        MEET;
        for (int odd = 0; odd < 2; odd++) { /* blocks that are 2 apart write into the same one */
            EACH(j, LINKS) {
                if (j / (2 * apart) % 2 != odd) continue;
                const int i = j - apart, k = j + apart;
                const real *const dj = d + TRIANGLE * j, *const rj = r + DG_BLOCK * j;
                real *const di = d_new + TRIANGLE * i, *const ri = r_new + DG_BLOCK * i;
                real *const dk = d_new + TRIANGLE * k, *const rk = r_new + DG_BLOCK * k;
                if (i >= 0 && k < LINKS)
                    eliminate_both(dj, rj, u + SQUARE * i, u + SQUARE * j, di, ri, dk, rk, di, ri, dk, rk, u_new + SQUARE * i);
                else if (i >= 0)
                    eliminate_before(dj, rj, u + SQUARE * i, di, ri, di, ri);
                else if (k < LINKS)
                    eliminate_after(dj, rj, u + SQUARE * j, dk, rk, dk, rk);
            }
            MEET;
        }
        EXCHANGE(d, d_new);
        EXCHANGE(u, u_new);
        EXCHANGE(r, r_new);
    }
    EACH(i, LINKS) block_solve(d + TRIANGLE * i, r + DG_BLOCK * i, x + DG_BLOCK * i);
    MEET;
    EACH(i, LINKS) {
        real sum = unforced[i];
        for (int k = 0; k < DG_BLOCK; k++) {
            sum += row[DG_BLOCK * i + k] * x[DG_BLOCK * i + k];
            if (i + 1 < LINKS) sum += row_next[DG_BLOCK * i + k] * x[DG_BLOCK * (i + 1) + k];
            if (i) sum += row_before[DG_BLOCK * i + k] * x[DG_BLOCK * (i - 1) + k];
        }
        qdd[i] = sum;
    }
    MEET;
}

/* Forces are up to 1e6 times what they leave of the accelerations, where joints slide or have rotors: then once more. */
ON_CARD void dynamics(state *s) {
    net_torque(s, false);
    accelerations(s, s->qdd);
    if (!REFINED) return;
    real *const more = s->rest + ALGORITHM_NUMBERS - LINKS;
    net_torque(s, true);
    accelerations(s, more);
    EACH(i, LINKS) s->qdd[i] += more[i];
    MEET;
}
#else
#define ALGORITHM_NUMBERS (LINKS * (LINKS + 1) / 2 + 20 * LINKS)
#define M(i, j) m[(i) * ((i) + 1) / 2 + (j)]

/* M's lower triangle in rows: what a joint's unit acceleration takes of all links behind it, whose inertias are summed. */
ON_CARD void mass_matrix(const state *s, real *m, real *inertia, real *spare) {
    EACH(i, LINKS) own_inertia(LINK(i), s->pose + 12 * i, inertia + 10 * i);
    MEET;
    const real *const behind = sums(inertia, spare, 10, true);
    EACH(i, LINKS) momentum(behind + 10 * i, s->axis + 6 * i, s->f + 6 * i);
    MEET;
    EACH(at, LINKS * LINKS) {
        const int i = at / LINKS, j = at % LINKS;
        if (j > i) continue;
        real sum = i == j ? LINK(i)[22] : 0;
        for (int k = 0; k < 6; k++) sum += s->f[6 * i + k] * s->axis[6 * j + k];
        M(i, j) = sum;
    }
    MEET;
}

/* x = M⁻¹ x by L D Lᵀ, a row for a lane. */
ON_CARD void solve(real *m, real *x) {
    for (int k = 0; k < LINKS; k++) {
        const real inverse = 1 / M(k, k);
        EACH(below, LINKS - k - 1) {
            const int i = k + 1 + below;
            const real l = M(i, k) * inverse;
            x[i] -= l * x[k];
            for (int j = k + 1; j <= i; j++) M(i, j) -= l * M(j, k);
        }
        MEET;
    }
    for (int k = LINKS - 1; k > 0; k--) {
        const real solved = x[k] / M(k, k);
        EACH(j, k) x[j] -= M(k, j) * solved;
        MEET;
    }
    EACH(k, LINKS) x[k] /= M(k, k);
    MEET;
}

ON_CARD void dynamics(state *s) {
    real *const m = s->rest, *const inertia = m + LINKS * (LINKS + 1) / 2;
    net_torque(s, false);
    mass_matrix(s, m, inertia, inertia + 10 * LINKS);
    EACH(i, LINKS) s->qdd[i] = s->net[i];
    MEET;
    solve(m, s->qdd);
}
#endif

#define CHAIN_NUMBERS (STATE_NUMBERS * LINKS + ALGORITHM_NUMBERS)
#define SHARED (CHAIN_NUMBERS * (int)sizeof(real))

/* One chain. own: CHAIN_NUMBERS numbers of its warp. */
ON_CARD void chain(const real *q, const real *qd, const real *tau, real *qdd, real *own) {
    state s;
    s.turn = own, s.rate = s.turn + 2 * LINKS, s.torque = s.rate + LINKS, s.qdd = s.torque + LINKS, s.net = s.qdd + LINKS;
    s.pose = s.net + LINKS, s.axis = s.pose + 12 * LINKS, s.v = s.axis + 6 * LINKS, s.f = s.v + 6 * LINKS;
    s.spare = s.f + 6 * LINKS, s.rest = s.spare + 12 * LINKS;
    EACH(i, LINKS) {
        if (chain_slides[i])
            s.turn[2 * i] = s.turn[2 * i + 1] = q[i];
        else
            sine_cosine(q[i], s.turn + 2 * i + 1, s.turn + 2 * i);
        s.rate[i] = qd[i], s.torque[i] = tau[i];
    }
    MEET;
    place(&s);
    dynamics(&s);
    EACH(i, LINKS) qdd[i] = s.qdd[i];
    MEET; /* before the memory is another chain's */
}

#ifdef __CUDACC__
extern "C" __global__ void __launch_bounds__(LANES)
    each(const real *q, const real *qd, const real *tau, real *qdd, long batch) {
    extern __shared__ __align__(16) real shared[];
    const long at = (long)blockIdx.x * LINKS;
    chain(q + at, qd + at, tau + at, qdd + at, shared);
}
#else
static void each(const real *q, const real *qd, const real *tau, real *qdd, long batch) {
    real *const own = (real *)malloc(SHARED); /* a checker of memory sees where it ends */
    for (long at = 0; at < batch * LINKS; at += LINKS) chain(q + at, qd + at, tau + at, qdd + at, own);
    free(own);
}
#endif
