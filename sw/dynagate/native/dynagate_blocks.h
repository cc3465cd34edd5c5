/* An interpreter of graphs: one instruction at a time over a block of samples, which stays in the cache.
 *
 * The arithmetic is that of the generated kernels (dynagate_simd.h), and so are the results, bit by bit. Functions have the
 * arguments of generated kernels, but for the first input: that is the address of the program. */
#include "dynagate_simd.h"
#include "dynagate_overlap.h"

/* Most bytes of the values of a block. Long blocks amortize the jump to each instruction, also where the values leave the
 * second-level cache for the third. */
#define VALUES (2L << 20)

DG_FUNCTION(sqrt, sqrt(x))
DG_FUNCTION(select, x > 0 ? y : z)

/* to, a, b, c: slots, or numbers of constants in the place of an operand. */
typedef struct {
    uint16_t code, to, a, b, c;
} dg_instruction;

/* input_slots: of all entries of all inputs. Slot 0 holds zero. */
typedef struct {
    const dg_instruction *code;
    const double *constants;
    const int32_t *input_slots, *input_sizes, *output_sizes;
    long count, inputs, outputs, slots;
} dg_program;

/* Where the entries of a batch are; strides are 0 for rows. `begin` is the first sample, and `left` how many follow. */
typedef struct {
    const real *const *inputs;
    real *const *outputs;
    long in_stride, out_stride, begin, left;
} dg_block;

enum {
    ADD, SUB, ADD_CONST, NEG, MUL, MUL_CONST, RECIPROCAL, CONST,
    SIN, COS, EXP, SQRT, NOISE, SELECT, SINCOS, STORE, WATCH,
    FMA, FMS, FNMA, FMA_Y, FMS_Y, FNMA_Y, FMA_Z, FMA_YZ
};

/* The inputs of a block of n vectors into their slots. Samples beyond the last one repeat it. */
static void dg_read(const dg_program *p, const dg_block *b, long n, vec *memory) {
    const int32_t *slot = p->input_slots;
    const long samples = n * DG_LANES, left = b->left < samples ? b->left : samples;
    for (long i = 0; i < p->inputs; i++)
        for (int j = 0, size = p->input_sizes[i]; j < size; j++, slot++) {
            real *to = (real *)(memory + *slot * n);
            const long step = b->in_stride ? 1 : size;
            const real *from = b->inputs[i] + (b->in_stride ? j * b->in_stride + b->begin : b->begin * size + j);
            for (long k = 0; k < left; k++) to[k] = from[k * step];
            for (long k = left; k < samples; k++) to[k] = to[left - 1];
        }
}

static void dg_write(const dg_program *p, const dg_block *b, long n, int port, int entry, const vec *value) {
    const long size = p->output_sizes[port], samples = n * DG_LANES, left = b->left < samples ? b->left : samples;
    const real *from = (const real *)value;
    if (b->out_stride)
        memcpy(b->outputs[port] + entry * b->out_stride + b->begin, from, left * sizeof(real));
    else {
        real *to = b->outputs[port] + b->begin * size + entry;
        for (long k = 0; k < left; k++) to[k * size] = from[k];
    }
}

/* Blocks of usual lengths, so that loops unroll. */
#define DG_N 32
#include "dynagate_block_run.h"
#define DG_N 16
#include "dynagate_block_run.h"
#define DG_N 8
#include "dynagate_block_run.h"
#define DG_N 4
#include "dynagate_block_run.h"
#define DG_N 2
#include "dynagate_block_run.h"
#define DG_N 1
#include "dynagate_block_run.h"
static const struct {
    long vectors;
    vec (*run)(const dg_program *, const dg_block *, vec *);
} dg_lengths[] = {{32, dg_run_32}, {16, dg_run_16}, {8, dg_run_8}, {4, dg_run_4}, {2, dg_run_2}, {1, dg_run_1}};

/* The longest blocks, as an index of dg_lengths, for so many samples: their values fit in the cache, and no shorter block
 * holds all samples. */
static int dg_length(const dg_program *p, long samples) {
    int length = 0;
    for (long n; (n = dg_lengths[length].vectors) > 1; length++)
        if (n * p->slots * DG_BYTES <= VALUES && dg_lengths[length + 1].vectors * DG_LANES < samples) break;
    return length;
}

enum { NO_MEMORY = 4 };

static int dg_compute(const real *const *inputs, real *const *outputs, long in_stride, long out_stride, long begin, long end) {
    const dg_program *p = (const dg_program *)*inputs++;
    dg_block b = {inputs, outputs, in_stride, out_stride, begin, end - begin};
    vec sum = {0};
    if (dg_overlap(inputs, p->input_sizes, (int)p->inputs, in_stride, outputs, p->output_sizes, (int)p->outputs, out_stride,
                   end) == TANGLED)
        return TANGLED;
    const long room = dg_lengths[dg_length(p, b.left)].vectors * p->slots * DG_BYTES;
    vec *const memory = aligned_alloc(64, (room + 63) / 64 * 64);
    if (!memory) return NO_MEMORY;
    dg_clear_faults();
    while (b.left > 0) {
        const int length = dg_length(p, b.left);
        const long n = dg_lengths[length].vectors;
        memset(memory, 0, n * sizeof(vec));
        dg_read(p, &b, n, memory);
        sum += dg_lengths[length].run(p, &b, memory);
        b.begin += n * DG_LANES;
        b.left = end - b.begin;
    }
    free(memory);
    int doubt = dg_faults();
    for (int j = 0; j < DG_LANES; j++) doubt |= sum[j] != 0;
    return doubt;
}

int DG_NAME(dynagate_blocks)(const real *const inputs[], real *const outputs[], long begin, long end) {
    return dg_compute(inputs, outputs, 0, 0, begin, end);
}

int DG_NAME(dynagate_blocks_planes)(const real *const inputs[], real *const outputs[], long in_stride, long out_stride,
                                    long begin, long end) {
    return dg_compute(inputs, outputs, in_stride, out_stride, begin, end);
}

int DG_NAME(dynagate_blocks_one)(const real *const inputs[], real *const outputs[]) {
    return dg_compute(inputs, outputs, 0, 0, 0, 1);
}

DG_END
