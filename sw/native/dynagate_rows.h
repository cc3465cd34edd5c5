/* Rows of a batch through the segments of a generated kernel.
 *
 * The generated file defines before it includes this:
 *   INPUTS, OUTPUTS, INPUT_ENTRIES, OUTPUT_ENTRIES   ports, and the entries of all of them
 *   SLOTS, BLOCK       numbers that a sample keeps in memory, vectors that a segment runs over
 *   input_size, output_size                          entries of each port
 *   input_slot, output_slot                          where each entry lies in memory, ports one after another; slot 0 is 0
 *   ANGLES, angle_slot, sine_slot, cosine_slot       what sines and cosines are taken of, and where they go (0: nowhere)
 *   rows_segments(m), one_segments(m)                all segments on BLOCK vectors per slot, and on one number per slot
 * and READ_INPUTS, WRITE_OUTPUTS: a PORT(k, size, offset of its slots) for each port. */
#define ROWS (BLOCK * DG_LANES)

/* Entries of DG_LANES rows into vectors, one per slot. Sizes and slots are constants where this is called, so that the
 * loops unroll and what nobody reads goes. */
DG_INLINE void read_rows(const real *from, int size, const short *slot, vec *m) {
#pragma GCC unroll 64
    for (int j = 0; j < size; j += DG_LANES) {
        const int count = size - j < DG_LANES ? size - j : DG_LANES;
        vec part[DG_LANES];
#pragma GCC unroll 16
        for (int r = 0; r < DG_LANES; r++) part[r] = dg_load_some(from + r * size + j, count);
        dg_transpose(part);
#pragma GCC unroll 16
        for (int r = 0; r < count; r++) m[slot[j + r] * BLOCK] = part[r];
    }
}

/* Vectors out to the entries of DG_LANES rows; runs of zeros are left alone. */
DG_INLINE void write_rows(const vec *m, int size, const short *slot, real *to) {
#pragma GCC unroll 64
    for (int j = 0; j + DG_LANES <= size; j += DG_LANES) {
        int used = 0;
#pragma GCC unroll 16
        for (int r = 0; r < DG_LANES; r++) used |= slot[j + r];
        if (!used) continue;
        vec part[DG_LANES];
#pragma GCC unroll 16
        for (int r = 0; r < DG_LANES; r++) part[r] = slot[j + r] ? m[slot[j + r] * BLOCK] : (vec){0};
        dg_transpose(part);
#pragma GCC unroll 16
        for (int r = 0; r < DG_LANES; r++) dg_store(to + r * size + j, part[r]);
    }
#pragma GCC unroll 16
    for (int j = size - size % DG_LANES; j < size; j++) {
        const real *from = (const real *)&m[slot[j] * BLOCK];
        for (int r = 0; r < DG_LANES; r++) to[r * size + j] = from[r];
    }
}

static void read_inputs(const real *const *inputs, long row, vec *m) {
#define PORT(k, size, offset) read_rows(inputs[k] + row * size, size, input_slot + offset, m);
    READ_INPUTS
#undef PORT
}

static void write_outputs(const vec *m, real *const *outputs, long row) {
#define PORT(k, size, offset) write_rows(m, size, output_slot + offset, outputs[k] + row * size);
    WRITE_OUTPUTS
#undef PORT
}

static void compute(vec *m) {
    for (int k = 0; k < BLOCK; k++)
        for (int a = 0; a < ANGLES; a++) {
            vec sine, cosine;
            dg_sincos(m[angle_slot[a] * BLOCK + k], &sine, &cosine);
            if (sine_slot[a]) m[sine_slot[a] * BLOCK + k] = sine;
            if (cosine_slot[a]) m[cosine_slot[a] * BLOCK + k] = cosine;
        }
    rows_segments(m);
}

/* ROWS rows; inputs and outputs begin with the first of them. */
static void run_rows(const real *const *inputs, real *const *outputs, vec *m) {
    for (int k = 0; k < BLOCK; k++) read_inputs(inputs, k * DG_LANES, m + k);
    compute(m);
    for (int k = 0; k < BLOCK; k++) write_outputs(m + k, outputs, k * DG_LANES);
}

/* ROWS rows of planes; entry e of a port is at e * stride. */
static void run_planes(const real *const *inputs, real *const *outputs, long stride, vec *m) {
    const short *slot = input_slot;
    for (int p = 0; p < INPUTS; p++)
        for (int j = 0; j < input_size[p]; j++, slot++)
            for (int k = 0; k < BLOCK; k++) m[*slot * BLOCK + k] = dg_load(inputs[p] + j * stride + k * DG_LANES);
    compute(m);
    slot = output_slot;
    for (int p = 0; p < OUTPUTS; p++)
        for (int j = 0; j < output_size[p]; j++, slot++)
            for (int k = 0; *slot && k < BLOCK; k++)
                dg_store(outputs[p] + j * stride + k * DG_LANES, m[*slot * BLOCK + k]);
}

static _Thread_local vec memory[SLOTS * BLOCK]; /* slot 0 stays 0 */
static _Thread_local real in_rest[ROWS * INPUT_ENTRIES], out_rest[ROWS * OUTPUT_ENTRIES];

void DG_NAME(KERNEL)(const real *const inputs[], real *const outputs[], long begin, long end) {
    const real *in[INPUTS];
    real *out[OUTPUTS];
    long row = begin;
    for (; row + ROWS <= end; row += ROWS) {
        for (int p = 0; p < INPUTS; p++) in[p] = inputs[p] + row * input_size[p];
        for (int p = 0; p < OUTPUTS; p++) out[p] = outputs[p] + row * output_size[p];
        run_rows(in, out, memory);
    }
    if (row >= end) return;
    /* the rest, its last row again and again to fill the block */
    real *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (long r = 0; r < ROWS; r++, to += input_size[p])
            memcpy(to, inputs[p] + (row + r < end ? row + r : end - 1) * input_size[p], input_size[p] * sizeof(real));
    }
    to = out_rest;
    for (int p = 0; p < OUTPUTS; to += ROWS * output_size[p++]) out[p] = to;
    run_rows(in, out, memory);
    for (int p = 0; p < OUTPUTS; p++)
        memcpy(outputs[p] + row * output_size[p], out[p], (end - row) * output_size[p] * sizeof(real));
}

void DG_NAME(KERNEL_PLANES)(const real *const inputs[], real *const outputs[], long stride, long begin, long end) {
    const real *in[INPUTS];
    real *out[OUTPUTS];
    long row = begin;
    for (; row + ROWS <= end; row += ROWS) {
        for (int p = 0; p < INPUTS; p++) in[p] = inputs[p] + row;
        for (int p = 0; p < OUTPUTS; p++) out[p] = outputs[p] + row;
        run_planes(in, out, stride, memory);
    }
    if (row >= end) return;
    real *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (int j = 0; j < input_size[p]; j++)
            for (long r = 0; r < ROWS; r++) *to++ = inputs[p][j * stride + (row + r < end ? row + r : end - 1)];
    }
    to = out_rest;
    for (int p = 0; p < OUTPUTS; to += ROWS * output_size[p++]) out[p] = to;
    run_planes(in, out, ROWS, memory);
    const short *slot = output_slot;
    for (int p = 0; p < OUTPUTS; p++)
        for (int j = 0; j < output_size[p]; j++)
            if (*slot++) memcpy(outputs[p] + j * stride + row, out[p] + j * ROWS, (end - row) * sizeof(real));
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

void DG_NAME(KERNEL_ONE)(const real *const inputs[], real *const outputs[]) {
    static _Thread_local real m[SLOTS];
#define PORT(k, size, offset) read_one(inputs[k], size, input_slot + offset, m);
    READ_INPUTS
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
    one_segments(m);
#define PORT(k, size, offset) write_one(m, size, output_slot + offset, outputs[k]);
    WRITE_OUTPUTS
#undef PORT
}
