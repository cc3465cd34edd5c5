/* Rows of a batch through the segments of a generated kernel.
 *
 * The generated file defines before it includes this:
 *   INPUTS, OUTPUTS, INPUT_ENTRIES, OUTPUT_ENTRIES   ports, and the entries of all of them
 *   SLOTS              numbers that a sample keeps in memory
 *   SEGMENTS, BLOCK    how many segments there are, and vectors that one may run over before the next
 *   input_size, output_size                          entries of each port
 *   input_slot, output_slot                          where each entry lies in memory, ports one after another; slot 0 is 0
 *   ANGLES, angle_slot, sine_slot, cosine_slot       what sines and cosines are taken of, and where they go (0: nowhere)
 *   WATCHED, watched_slot                            one of which is infinite or no number if an input is
 *   ROWS_SEGMENTS, ONE_SEGMENTS                      a SEGMENT_CALL(function) for each, over vectors and over numbers
 *   READ_INPUTS, WRITE_OUTPUTS                       a WINDOW(k, size, first entry, width, offset of its slots) for each
 *                                                    run of entries that are read, and written, together
 *   LOAD_INPUTS, STORE_OUTPUTS                       a PORT(k, size, offset of its slots) for each input, and output
 *   DIRECT             whether there is a segment that reads planes, and writes them, by itself, and then
 *   PLANES_SEGMENTS    a SEGMENT_CALL(function)
 *   SINES              an ANGLE(port, entry, slot of the sine, of the cosine) for each angle
 *   KEEP_INPUTS, GIVE_OUTPUTS                        an ENTRY(port, entry, slot) for inputs that are watched or results
 *                                                    themselves, and for results that no segment computes */
#include "dynagate_overlap.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Bytes of results that go past the caches: as many as the third-level cache holds, but between these. */
#define STREAM_LEAST (8L << 20)
#define STREAM_MOST (64L << 20)

/* `width` entries of DG_LANES rows into vectors, one per slot. A window that is wider than a row is cut off at its end. Sizes
 * and slots are constants where this is called, so that the loops unroll and what nobody reads goes. */
DG_INLINE void read_window(const real *from, int size, const short *slot, int width, vec *m) {
    const int part = width < DG_PART ? width : DG_PART;
#pragma GCC unroll 8
    for (int j = 0; j < width; j += part) {
        const int at = part <= size && j + part > size ? size - part : j, entries = at + part > size ? size : part;
        vec entry[DG_PART];
        dg_read_columns(from + at, size, part, entries, entry);
#pragma GCC unroll 8
        for (int i = 0; i < entries; i++) m[slot[at + i]] = entry[i];
    }
}

/* Vectors out to `width` entries of DG_LANES rows; of a window that is wider than a row, what sticks out is written over
 * by the row after it. */
DG_INLINE void write_window(const vec *m, int size, const short *slot, int width, real *to) {
    const int part = width < DG_PART ? width : DG_PART;
#pragma GCC unroll 8
    for (int j = 0; j < width; j += part) {
        const int at = part <= size && j + part > size ? size - part : j, entries = at + part > size ? size : part;
        vec entry[DG_PART];
#pragma GCC unroll 8
        for (int i = 0; i < part; i++) entry[i] = i < entries && slot[at + i] ? m[slot[at + i]] : (vec){0};
        dg_transpose(entry, part);
#pragma GCC unroll 16
        for (int p = 0; p < DG_LANES / part; p++)
#pragma GCC unroll 8
            for (int i = 0; i < part; i++) {
                const int row = p * part + i;
                dg_store_part(to + row * size + at, entry[i], part, p, row < DG_LANES - 1 ? part : entries);
            }
    }
}

static void read_inputs(const real *const *inputs, long row, vec *m) {
#define WINDOW(k, size, at, width, offset) \
    read_window(inputs[k] + row * size + at, size, input_slot + offset, width, m);
    READ_INPUTS
#undef WINDOW
}

static void write_outputs(const vec *m, real *const *outputs, long row) {
#define WINDOW(k, size, at, width, offset) \
    write_window(m, size, output_slot + offset, width, outputs[k] + row * size + at);
    WRITE_OUTPUTS
#undef WINDOW
}

DG_INLINE void read_plane(const real *from, long stride, int size, const short *slot, vec *m) {
#pragma GCC unroll 64
    for (int j = 0; j < size; j++) m[slot[j]] = dg_load(from + j * stride);
}

DG_INLINE void write_plane(const vec *m, int size, const short *slot, real *to, long stride, int stream) {
#pragma GCC unroll 1024
    for (int j = 0; j < size; j++, to += stride) {
        if (!slot[j]) continue;
        if (stream) dg_stream(to, m[slot[j]]);
        else dg_store(to, m[slot[j]]);
    }
}

static void read_planes(const real *const *inputs, long stride, long row, vec *m) {
#define PORT(k, size, offset) read_plane(inputs[k] + row, stride, size, input_slot + offset, m);
    LOAD_INPUTS
#undef PORT
}

DG_INLINE void write_planes(const vec *m, real *const *outputs, long stride, long row, int stream) {
#define PORT(k, size, offset) write_plane(m, size, output_slot + offset, outputs[k] + row, stride, stream);
    STORE_OUTPUTS
#undef PORT
}

DG_INLINE void sine_and_cosine(vec angle, vec *m, int sine_at, int cosine_at) {
    vec sine, cosine;
    dg_sincos(angle, &sine, &cosine);
    if (sine_at) m[sine_at] = sine;
    if (cosine_at) m[cosine_at] = cosine;
}

static void compute(vec *m, int count) {
    for (int k = 0; k < count; k++) {
        vec *at = m + k * SLOTS;
#pragma GCC unroll 64
        for (int a = 0; a < ANGLES; a++) sine_and_cosine(at[angle_slot[a]], at, sine_slot[a], cosine_slot[a]);
    }
#define SEGMENT_CALL(function) \
    for (int k = 0; k < count; k++) function(m + k * SLOTS);
    ROWS_SEGMENTS
#undef SEGMENT_CALL
}

/* DG_LANES samples at the end of a batch. Results of rows and of planes have memory of their own: entries that are always
 * zero are never written, and must not hold what the other layout has elsewhere. */
static _Thread_local real in_rest[DG_LANES * INPUT_ENTRIES];
static _Thread_local real rows_rest[DG_LANES * OUTPUT_ENTRIES] __attribute__((aligned(DG_BYTES)));
static _Thread_local real planes_rest[DG_LANES * OUTPUT_ENTRIES] __attribute__((aligned(DG_BYTES)));

/* Where the results of DG_LANES samples lie in such memory, port after port. */
static void ports_of(real *rest, real **out) {
    for (int p = 0; p < OUTPUTS; rest += DG_LANES * output_size[p++]) out[p] = rest;
}

/* The results of DG_LANES rows, which lie side by side, as whole vectors past the caches. */
static void stream_outputs(const vec *m, real *const *outputs, long row) {
    real *out[OUTPUTS];
    ports_of(rows_rest, out);
    write_outputs(m, out, 0);
    for (int p = 0; p < OUTPUTS; p++)
        for (int j = 0; j < output_size[p]; j++)
            dg_stream(outputs[p] + (row * output_size[p] + j * DG_LANES), dg_load(out[p] + j * DG_LANES));
}

/* Where the entries of a batch are. Strides: 0 for rows; of planes, from one entry of a sample to the next. stream: whether
 * results go past the caches. direct: whether segments read and write planes themselves. */
typedef struct {
    const real *const *inputs;
    real *const *outputs;
    long in_stride, out_stride;
    int stream, direct;
} batch;

/* Whether the results of so many rows are more than caches hold, which would fetch what is there first, and begin where a
 * vector may lie. */
static int streams(real *const *outputs, long stride, long begin, long end) {
    static long most = 0;
    const long entries = (end - begin) * OUTPUT_ENTRIES;
    if (!DG_STREAMS || entries * (long)sizeof(real) < STREAM_LEAST || stride % DG_LANES) return 0;
    if (!most) {
        long cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
        cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        most = cache > 0 && cache < STREAM_MOST ? cache : STREAM_MOST;
    }
    if (entries * (long)sizeof(real) < most) return 0;
    for (int p = 0; p < OUTPUTS; p++)
        if ((uintptr_t)(outputs[p] + begin * (stride ? 1 : output_size[p])) % DG_BYTES) return 0;
    return 1;
}

/* Vectors of planes that are read and written side by side, a pair of cache lines, where that takes little room. */
#define PAIR (BLOCK > 1 && 2 * SLOTS * DG_BYTES <= 16384 ? 2 : 1)

#if DIRECT
/* Where entries begin of samples from one row on. */
DG_INLINE void from_row(const batch *b, long row, const real **in, real **out) {
    for (int p = 0; p < INPUTS; p++) in[p] = b->inputs[p] + row;
    for (int p = 0; p < OUTPUTS; p++) out[p] = b->outputs[p] + row;
}

/* As `run`, of planes whose entries do not pass through memory of their own. */
DG_INLINE void run_direct(const batch *b, long row, int count, vec *m) {
    const real *in[INPUTS];
    real *out[OUTPUTS];
    for (int k = 0; k < count; k++) {
        vec *at = m + k * SLOTS;
        from_row(b, row + k * DG_LANES, in, out);
#define ANGLE(p, j, sine_at, cosine_at) sine_and_cosine(dg_load(in[p] + j * b->in_stride), at, sine_at, cosine_at);
        SINES
#undef ANGLE
    }
    for (int k = 0; k < count; k++) {
        vec *at = m + k * SLOTS;
        from_row(b, row + k * DG_LANES, in, out);
#define SEGMENT_CALL(function) function(at, in, out, b->in_stride, b->out_stride);
        PLANES_SEGMENTS
#undef SEGMENT_CALL
#define ENTRY(p, j, slot) at[slot] = dg_load(in[p] + j * b->in_stride);
        KEEP_INPUTS
#undef ENTRY
#define ENTRY(p, j, slot) dg_store(out[p] + j * b->out_stride, at[slot]);
        GIVE_OUTPUTS
#undef ENTRY
    }
}
#else
#define run_direct(b, row, count, m)
#endif

/* Zero, or no number where an input or a result is infinite or none. */
static vec doubt(const vec *m) {
    vec sum = {0};
#pragma GCC unroll 64
    for (int a = 0; a < WATCHED; a++) sum += m[watched_slot[a]] * (real)0;
    return sum;
}

static int overlap(const batch *b, long end) {
    return dg_overlap(b->inputs, input_size, INPUTS, b->in_stride, b->outputs, output_size, OUTPUTS, b->out_stride, end);
}

/* count vectors of rows, from one row on; returns what of them is in doubt. */
static vec run(const batch *b, long row, int count, vec *m) {
    vec sum = {0};
    if (b->direct) {
        if (count == PAIR) run_direct(b, row, PAIR, m); /* a constant, mostly */
        else run_direct(b, row, count, m);
    } else {
        for (int k = 0; k < count; k++)
            if (b->in_stride) read_planes(b->inputs, b->in_stride, row + k * DG_LANES, m + k * SLOTS);
            else read_inputs(b->inputs, row + k * DG_LANES, m + k * SLOTS);
        compute(m, count);
        for (int k = 0; k < count; k++)
            if (b->out_stride && b->stream) write_planes(m + k * SLOTS, b->outputs, b->out_stride, row + k * DG_LANES, 1);
            else if (b->out_stride) write_planes(m + k * SLOTS, b->outputs, b->out_stride, row + k * DG_LANES, 0);
            else if (b->stream) stream_outputs(m + k * SLOTS, b->outputs, row + k * DG_LANES);
            else write_outputs(m + k * SLOTS, b->outputs, row + k * DG_LANES);
    }
    for (int k = 0; k < count; k++) sum += doubt(m + k * SLOTS);
    return sum;
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

/* What a kernel returns of all that it has computed since dg_clear_faults. */
static int is_in_doubt(vec sum) {
    int doubt = dg_faults();
    for (int j = 0; j < DG_LANES; j++) doubt |= sum[j] != 0;
    return doubt;
}

/* The vectors of a range of rows that are full; adds what of them is in doubt, and returns the first row that is left. */
static long run_full(const batch *b, long row, long end, vec *sum) {
    vec *const m = memory; /* asked for once: it is the thread's own */
    int most = row + BLOCK * DG_LANES <= end ? block() : 1;
    dg_clear_faults();
    if (b->in_stride && most < PAIR) most = PAIR;
    for (long left; (left = (end - row) / DG_LANES) > 0;) {
        const int count = left < most ? (int)left : most;
        *sum += run(b, row, count, m);
        row += count * DG_LANES;
    }
    if (b->stream) dg_streamed();
    return row;
}

int DG_NAME(KERNEL)(const real *const inputs[], real *const outputs[], long begin, long end) {
    vec sum = {0};
    const batch b = {inputs, outputs, 0, 0, streams(outputs, 0, begin, end), 0};
    if (overlap(&b, end) == TANGLED) return TANGLED;
    const long row = run_full(&b, begin, end, &sum);
    if (row >= end) return is_in_doubt(sum);
    /* the rest, its last row again and again to fill a vector */
    const real *in[INPUTS];
    real *out[OUTPUTS], *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (long r = row; r < row + DG_LANES; r++, to += input_size[p])
            memcpy(to, inputs[p] + (r < end ? r : end - 1) * input_size[p], input_size[p] * sizeof(real));
    }
    ports_of(rows_rest, out);
    sum += run(&(batch){in, out, 0, 0, 0, 0}, 0, 1, memory);
    for (int p = 0; p < OUTPUTS; p++)
        memcpy(outputs[p] + row * output_size[p], out[p], (end - row) * output_size[p] * sizeof(real));
    return is_in_doubt(sum);
}

int DG_NAME(KERNEL_PLANES)(const real *const inputs[], real *const outputs[], long in_stride, long out_stride, long begin,
                           long end) {
    vec sum = {0};
    batch b = {inputs, outputs, in_stride, out_stride, streams(outputs, out_stride, begin, end), 0};
    const int lies = overlap(&b, end);
    if (lies == TANGLED) return TANGLED;
    b.direct = DIRECT && !b.stream && lies == APART;
    const long row = run_full(&b, begin, end, &sum);
    if (row >= end) return is_in_doubt(sum);
    const real *in[INPUTS];
    real *out[OUTPUTS], *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (int j = 0; j < input_size[p]; j++)
            for (long r = row; r < row + DG_LANES; r++) *to++ = inputs[p][j * in_stride + (r < end ? r : end - 1)];
    }
    ports_of(planes_rest, out);
    sum += run(&(batch){in, out, DG_LANES, DG_LANES, 0, DIRECT}, 0, 1, memory);
    const short *slot = output_slot;
    for (int p = 0; p < OUTPUTS; p++)
        for (int j = 0; j < output_size[p]; j++)
            if (*slot++) memcpy(outputs[p] + j * out_stride + row, out[p] + j * DG_LANES, (end - row) * sizeof(real));
    return is_in_doubt(sum);
}

DG_INLINE void read_one(const real *from, int size, const short *slot, real *m) {
#pragma GCC unroll 64
    for (int j = 0; j < size; j++) m[slot[j]] = from[j];
}

DG_INLINE void write_one(const real *m, int size, const short *slot, real *to) {
#pragma GCC unroll 1024
    for (int j = 0; j < size; j++)
        if (slot[j]) to[j] = m[slot[j]];
}

int DG_NAME(KERNEL_ONE)(const real *const inputs[], real *const outputs[]) {
    static _Thread_local real m[SLOTS];
    dg_clear_faults();
#define PORT(k, size, offset) read_one(inputs[k], size, input_slot + offset, m);
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
    real zero = 0;
#pragma GCC unroll 64
    for (int a = 0; a < WATCHED; a++) zero += m[watched_slot[a]] * (real)0;
    return dg_faults() | (zero != 0);
}
