/* Integers of a formatted graph, an operation at a time over a block of states: formats are data.
 *
 * Included after `word`, the type in which values are kept, and dynagate_integers.h. */

enum { BLOCK_MOST = 1024 };

/* An operation: `kernel` computes the values in slot `out` from those in slots `in`, each moved `up` first. */
struct step {
    dg_64 kernel, out, in[3], up[3], constant, down, half, width, saturate, scope, node, table;
};

/* low, high: of the inputs' formats. tables: numbers of all plans, one plan after the other. */
struct program {
    const struct step *steps;
    const dg_64 *tables, *low, *high, *input_slots, *output_slots;
    dg_64 count, inputs, outputs, block;
};

typedef int kernel(const struct step *, const dg_64 *, const word *, const word *, const word *, word *, dg_flag *, long);

#define EACH for (long i = 0; i < n; i++)

/* Sets the flags of a block, and returns 1, only if one of them is set. */
#define KERNEL(name, bits, CONSTANTS, OPERANDS, VALUE)                                                                \
    static int name(const struct step *s, const dg_64 *tables, const word *restrict a, const word *restrict b,       \
                    const word *restrict c, word *restrict out, dg_flag *restrict flag, long n) {                     \
        typedef dg_##bits T;                                                                                          \
        const int down = (int)s->down, keep = bits - (int)s->width;                                                   \
        const int up0 = (int)s->up[0], up1 = (int)s->up[1], up2 = (int)s->up[2];                                      \
        const T half = s->half ? (T)1 << (down - 1) : 0, low = -((T)1 << (s->width - 1)), high = -(low + 1);          \
        const dg_64 *p = tables + s->table;                                                                           \
        int wrong = 0;                                                                                                \
        T bad = 0;                                                                                                    \
        (void)a, (void)b, (void)c, (void)up0, (void)up1, (void)up2, (void)p;                                          \
        CONSTANTS                                                                                                     \
        if (s->saturate)                                                                                              \
            EACH {                                                                                                    \
                OPERANDS const T v = DG_CUT((T)(VALUE), half, down), kept = DG_CLIP(v, low, high);                    \
                out[i] = (word)kept;                                                                                  \
                bad |= (v ^ kept) | wrong;                                                                            \
            }                                                                                                         \
        else                                                                                                          \
            EACH {                                                                                                    \
                OPERANDS const T v = DG_CUT((T)(VALUE), half, down), kept = DG_WRAP(bits, v, keep);                   \
                out[i] = (word)kept;                                                                                  \
                bad |= (v ^ kept) | wrong;                                                                            \
            }                                                                                                         \
        if (!bad)                                                                                                     \
            return 0;                                                                                                 \
        EACH {                                                                                                        \
            OPERANDS const T v = DG_CUT((T)(VALUE), half, down);                                                      \
            flag[i] = (v < low) | (v > high) | (wrong != 0);                                                          \
        }                                                                                                             \
        return 1;                                                                                                     \
    }

static kernel *const kernels[];

/* inputs: of each, integers (batch). outputs: the same. by_scope: (scopes, batch), and overflow: (batch), 0 before.
 * origins: per node in how many states overflow began there, 0 before. memory: slots * block words.
 * Returns 1 if an input is not in its format: the results are then undefined. */
int dynagate_integers(const struct program *g, const dg_64 *const *inputs, dg_64 *const *outputs, dg_flag *by_scope,
                      dg_flag *overflow, dg_64 *origins, word *memory, long batch) {
    dg_flag flag[BLOCK_MOST];
    const long block = (long)g->block;
    if (block > BLOCK_MOST)
        return 2;
    for (long start = 0; start < batch; start += block) {
        const long n = batch - start < block ? batch - start : block;
        for (long k = 0; k < g->inputs; k++) {
            word *restrict to = memory + g->input_slots[k] * block;
            const dg_64 *restrict from = inputs[k] + start, low = g->low[k], high = g->high[k];
            int outside = 0;
            EACH {
                outside |= (from[i] < low) | (from[i] > high);
                to[i] = (word)from[i];
            }
            if (outside)
                return 1;
        }
        for (long k = 0; k < g->count; k++) {
            const struct step *s = g->steps + k;
            const word *a = memory + s->in[0] * block, *b = memory + s->in[1] * block, *c = memory + s->in[2] * block;
            if (!kernels[s->kernel](s, g->tables, a, b, c, memory + s->out * block, flag, n))
                continue;
            dg_flag *of_scope = by_scope + s->scope * batch + start, *any = overflow + start;
            long began = 0;
            EACH {
                began += flag[i] & !any[i];
                of_scope[i] |= flag[i];
                any[i] |= flag[i];
            }
            origins[s->node] += began;
        }
        for (long k = 0; k < g->outputs; k++) {
            const word *restrict from = memory + g->output_slots[k] * block;
            dg_64 *restrict to = outputs[k] + start;
            EACH to[i] = from[i];
        }
    }
    return 0;
}
