/* Rows of a batch through the segments of a generated kernel.
 *
 * The generated file defines before it includes this:
 *   INPUTS, OUTPUTS, INPUT_ENTRIES, OUTPUT_ENTRIES   ports, and the entries of all of them
 *   SLOTS              numbers that a sample keeps in memory
 *   SEGMENTS, BLOCK    how many segments there are, and vectors that one may run over before the next
 *   input_size, output_size                          entries of each port
 *   input_slot, output_slot                          where each entry lies in memory, ports one after another; slot 0 is 0
 *   ANGLES, angle_slot, sine_slot, cosine_slot       what sines and cosines are taken of, and where they go (0: nowhere)
 *   ROWS_SEGMENTS, ONE_SEGMENTS                      a SEGMENT_CALL(function) for each, over vectors and over numbers
 *   READ_INPUTS, WRITE_OUTPUTS                       a WINDOW(k, size, first entry, width, offset of its slots) for each
 *                                                    run of entries that are read, and written, together
 *   LOAD_INPUTS, STORE_OUTPUTS                       a PORT(k, size, offset of its slots) for each input, and output */
#include <time.h>

/* Zero until a number that is read is infinite or none. */
static _Thread_local vec doubt;

/* `width` entries of DG_LANES rows into vectors, one per slot; returns them times zero. Sizes and slots are constants
 * where this is called, so that the loops unroll and what nobody reads goes. */
DG_INLINE vec read_window(const real *from, int size, const short *slot, int width, vec *m) {
    const int part = width < DG_READ ? width : DG_READ;
    vec zero = {0};
#pragma GCC unroll 8
    for (int j = 0; j < width; j += part) {
        vec entry[DG_READ];
#pragma GCC unroll 8
        for (int i = 0; i < part; i++) entry[i] = dg_load_parts(from + i * size + j, part, (long)part * size);
        dg_transpose(entry, part);
#pragma GCC unroll 8
        for (int i = 0; i < part; i++) {
            m[slot[j + i]] = entry[i];
            zero += entry[i] * (real)0;
        }
    }
    return zero;
}

/* Vectors out to `width` entries of DG_LANES rows. */
DG_INLINE void write_window(const vec *m, int size, const short *slot, int width, real *to) {
    const int part = width < DG_WRITE ? width : DG_WRITE;
#pragma GCC unroll 8
    for (int j = 0; j < width; j += part) {
        vec entry[DG_WRITE];
#pragma GCC unroll 8
        for (int i = 0; i < part; i++) entry[i] = slot[j + i] ? m[slot[j + i]] : (vec){0};
        dg_transpose(entry, part);
#pragma GCC unroll 8
        for (int i = 0; i < part; i++)
#pragma GCC unroll 16
            for (int p = 0; p < DG_LANES / part; p++) dg_store_part(to + (p * part + i) * size + j, entry[i], part, p);
    }
}

static void read_inputs(const real *const *inputs, long row, vec *m) {
    vec zero = {0};
#define WINDOW(k, size, at, width, offset) \
    zero += read_window(inputs[k] + row * size + at, size, input_slot + offset, width, m);
    READ_INPUTS
#undef WINDOW
    doubt += zero;
}

static void write_outputs(const vec *m, real *const *outputs, long row) {
#define WINDOW(k, size, at, width, offset) \
    write_window(m, size, output_slot + offset, width, outputs[k] + row * size + at);
    WRITE_OUTPUTS
#undef WINDOW
}

/* Of count vectors of rows, entry after entry: a plane's rows lie side by side, and its neighbours on other pages. */
static void read_planes(const real *const *inputs, long stride, long row, int count, vec *m) {
    const short *slot = input_slot;
    vec zero = {0};
    for (int p = 0; p < INPUTS; p++)
        for (int j = 0; j < input_size[p]; j++, slot++)
            for (int k = 0; k < count; k++) {
                const vec v = dg_load(inputs[p] + j * stride + row + k * DG_LANES);
                m[k * SLOTS + *slot] = v;
                zero += v * (real)0;
            }
    doubt += zero;
}

static void write_planes(const vec *m, real *const *outputs, long stride, long row, int count) {
    const short *slot = output_slot;
    for (int p = 0; p < OUTPUTS; p++)
        for (int j = 0; j < output_size[p]; j++, slot++)
            for (int k = 0; *slot && k < count; k++)
                dg_store(outputs[p] + j * stride + row + k * DG_LANES, m[k * SLOTS + *slot]);
}

static void compute(vec *m, int count) {
    for (int k = 0; k < count; k++) {
        vec sine, cosine, *at = m + k * SLOTS;
#pragma GCC unroll 64
        for (int a = 0; a < ANGLES; a++) {
            dg_sincos(at[angle_slot[a]], &sine, &cosine);
            if (sine_slot[a]) at[sine_slot[a]] = sine;
            if (cosine_slot[a]) at[cosine_slot[a]] = cosine;
        }
    }
#define SEGMENT_CALL(function) \
    for (int k = 0; k < count; k++) function(m + k * SLOTS);
    ROWS_SEGMENTS
#undef SEGMENT_CALL
}

/* Where the entries of a batch are. stride: 0 for rows; of planes, from one entry of a sample to the next. */
typedef struct {
    const real *const *inputs;
    real *const *outputs;
    long stride;
} batch;

/* count vectors of rows, from one row on. */
static void run(const batch *b, long row, int count, vec *m) {
    if (b->stride) read_planes(b->inputs, b->stride, row, count, m);
    for (int k = 0; !b->stride && k < count; k++) read_inputs(b->inputs, row + k * DG_LANES, m + k * SLOTS);
    compute(m, count);
    if (b->stride) write_planes(m, b->outputs, b->stride, row, count);
    for (int k = 0; !b->stride && k < count; k++) write_outputs(m + k * SLOTS, b->outputs, row + k * DG_LANES);
}

static int64_t nanoseconds(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* BLOCK vectors of zeros in blocks of count, in the shortest of a few times. */
static int64_t time_of(int count, vec *m) {
    int64_t best = INT64_MAX;
    for (int trial = 0; trial < 8; trial++) {
        const int64_t begin = nanoseconds();
        for (int k = 0; k < BLOCK; k += count) compute(m, count);
        const int64_t time = nanoseconds() - begin;
        if (time < best) best = time;
    }
    return best;
}

static _Thread_local vec memory[SLOTS * BLOCK]; /* slot 0 of each vector's stays 0 */

/* Vectors that pass a segment before the next: whether more than one is faster depends on the processor's caches for
 * instructions and data, so each thread measures it once. A tenth must be gained. */
static int block(void) {
    static _Thread_local int chosen;
    if (!chosen) chosen = SEGMENTS > 1 && BLOCK > 1 && time_of(BLOCK, memory) < time_of(1, memory) / 10 * 9 ? BLOCK : 1;
    return chosen;
}

/* Vectors of a plane that are written side by side: a pair of cache lines. */
#define PAIR (BLOCK > 1 ? 2 : 1)

/* Whether there was a doubt since the last time. */
static int doubted(void) {
    int found = 0;
    for (int j = 0; j < DG_LANES; j++) found |= doubt[j] != 0;
    doubt = (vec){0};
    return found;
}

/* The vectors of a range of rows that are full; returns the first row that is left. */
static long run_full(const batch *b, long row, long end) {
    int most = row + BLOCK * DG_LANES <= end ? block() : 1;
    if (b->stride && most < PAIR) most = PAIR;
    for (long left; (left = (end - row) / DG_LANES) > 0;) {
        const int count = left < most ? (int)left : most;
        run(b, row, count, memory);
        row += count * DG_LANES;
    }
    return row;
}

static _Thread_local real in_rest[DG_LANES * INPUT_ENTRIES], out_rest[DG_LANES * OUTPUT_ENTRIES];

int DG_NAME(KERNEL)(const real *const inputs[], real *const outputs[], long begin, long end) {
    const long row = run_full(&(batch){inputs, outputs, 0}, begin, end);
    if (row >= end) return doubted();
    /* the rest, its last row again and again to fill a vector */
    const real *in[INPUTS];
    real *out[OUTPUTS], *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (long r = row; r < row + DG_LANES; r++, to += input_size[p])
            memcpy(to, inputs[p] + (r < end ? r : end - 1) * input_size[p], input_size[p] * sizeof(real));
    }
    to = out_rest;
    for (int p = 0; p < OUTPUTS; to += DG_LANES * output_size[p++]) out[p] = to;
    run(&(batch){in, out, 0}, 0, 1, memory);
    for (int p = 0; p < OUTPUTS; p++)
        memcpy(outputs[p] + row * output_size[p], out[p], (end - row) * output_size[p] * sizeof(real));
    return doubted();
}

int DG_NAME(KERNEL_PLANES)(const real *const inputs[], real *const outputs[], long stride, long begin, long end) {
    const long row = run_full(&(batch){inputs, outputs, stride}, begin, end);
    if (row >= end) return doubted();
    const real *in[INPUTS];
    real *out[OUTPUTS], *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (int j = 0; j < input_size[p]; j++)
            for (long r = row; r < row + DG_LANES; r++) *to++ = inputs[p][j * stride + (r < end ? r : end - 1)];
    }
    to = out_rest;
    for (int p = 0; p < OUTPUTS; to += DG_LANES * output_size[p++]) out[p] = to;
    run(&(batch){in, out, DG_LANES}, 0, 1, memory);
    const short *slot = output_slot;
    for (int p = 0; p < OUTPUTS; p++)
        for (int j = 0; j < output_size[p]; j++)
            if (*slot++) memcpy(outputs[p] + j * stride + row, out[p] + j * DG_LANES, (end - row) * sizeof(real));
    return doubted();
}

DG_INLINE real read_one(const real *from, int size, const short *slot, real *m) {
    real zero = 0;
#pragma GCC unroll 64
    for (int j = 0; j < size; j++) {
        m[slot[j]] = from[j];
        zero += from[j] * (real)0;
    }
    return zero;
}

DG_INLINE void write_one(const real *m, int size, const short *slot, real *to) {
#pragma GCC unroll 1024
    for (int j = 0; j < size; j++)
        if (slot[j]) to[j] = m[slot[j]];
}

int DG_NAME(KERNEL_ONE)(const real *const inputs[], real *const outputs[]) {
    static _Thread_local real m[SLOTS];
    real zero = 0;
#define PORT(k, size, offset) zero += read_one(inputs[k], size, input_slot + offset, m);
    LOAD_INPUTS
#undef PORT
    /* the angles side by side in vectors */
    real angle[ANGLES + DG_LANES] = {0}, sine[ANGLES + DG_LANES], cosine[ANGLES + DG_LANES];
#pragma GCC unroll 64
    for (int a = 0; a < ANGLES; a++) angle[a] = m[angle_slot[a]];
    for (int a = 0; a < ANGLES; a += DG_LANES) {
        vec s, c;
        dg_sincos(dg_load(angle + a), &s, &c);
        dg_store(sine + a, s);
        dg_store(cosine + a, c);
    }
#pragma GCC unroll 64
    for (int a = 0; a < ANGLES; a++) {
        if (sine_slot[a]) m[sine_slot[a]] = sine[a];
        if (cosine_slot[a]) m[cosine_slot[a]] = cosine[a];
    }
#define SEGMENT_CALL(function) function(m);
    ONE_SEGMENTS
#undef SEGMENT_CALL
#define PORT(k, size, offset) write_one(m, size, output_slot + offset, outputs[k]);
    STORE_OUTPUTS
#undef PORT
    return zero != 0;
}
