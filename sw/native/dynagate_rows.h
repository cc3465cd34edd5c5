/* Rows of a batch through the segments of a generated kernel.
 *
 * The generated file defines before it includes this:
 *   INPUTS, OUTPUTS, INPUT_ENTRIES, OUTPUT_ENTRIES   ports, and the entries of all of them
 *   SLOTS, BLOCK       numbers that a sample keeps in memory, vectors that a segment runs over
 *   input_size, output_size                          entries of each port
 *   input_slot, output_slot                          where each entry lies in memory, ports one after another; slot 0 is 0
 *   ANGLES, angle_slot, sine_slot, cosine_slot       what sines and cosines are taken of, and where they go (0: nowhere)
 *   rows_segments(m), one_segments(m)                all segments on BLOCK vectors per slot, and on one number per slot */
#define ROWS (BLOCK * DG_LANES)

/* Entries of DG_LANES rows into vectors, one per slot. */
static void read_rows(const real *from, int size, const short *slot, vec *m) {
    int j = 0;
    for (; j + DG_LANES <= size; j += DG_LANES) {
        vec part[DG_LANES];
        for (int r = 0; r < DG_LANES; r++) part[r] = dg_load(from + r * size + j);
        dg_transpose(part);
        for (int r = 0; r < DG_LANES; r++) m[slot[j + r] * BLOCK] = part[r];
    }
    for (; j < size; j++) {
        real *to = (real *)&m[slot[j] * BLOCK];
        for (int r = 0; r < DG_LANES; r++) to[r] = from[r * size + j];
    }
}

/* Vectors out to the entries of DG_LANES rows; runs of zeros are left alone. */
static void write_rows(const vec *m, int size, const short *slot, real *to) {
    int j = 0;
    for (; j + DG_LANES <= size; j += DG_LANES) {
        int used = 0;
        for (int r = 0; r < DG_LANES; r++) used |= slot[j + r];
        if (!used) continue;
        vec part[DG_LANES];
        for (int r = 0; r < DG_LANES; r++) part[r] = m[slot[j + r] * BLOCK];
        dg_transpose(part);
        for (int r = 0; r < DG_LANES; r++) dg_store(to + r * size + j, part[r]);
    }
    for (; j < size; j++) {
        const real *from = (const real *)&m[slot[j] * BLOCK];
        for (int r = 0; r < DG_LANES; r++) to[r * size + j] = from[r];
    }
}

static void run_block(const real *const *inputs, real *const *outputs, vec *m) {
    for (int k = 0; k < BLOCK; k++, m++) {
        const short *slot = input_slot;
        for (int p = 0; p < INPUTS; slot += input_size[p++])
            read_rows(inputs[p] + (long)k * DG_LANES * input_size[p], input_size[p], slot, m);
        for (int a = 0; a < ANGLES; a++) {
            vec sine, cosine;
            dg_sincos(m[angle_slot[a] * BLOCK], &sine, &cosine);
            if (sine_slot[a]) m[sine_slot[a] * BLOCK] = sine;
            if (cosine_slot[a]) m[cosine_slot[a] * BLOCK] = cosine;
        }
    }
    m -= BLOCK;
    rows_segments(m);
    for (int k = 0; k < BLOCK; k++, m++) {
        const short *slot = output_slot;
        for (int p = 0; p < OUTPUTS; slot += output_size[p++])
            write_rows(m, output_size[p], slot, outputs[p] + (long)k * DG_LANES * output_size[p]);
    }
}

void DG_NAME(KERNEL)(const real *const inputs[], real *const outputs[], long begin, long end) {
    static _Thread_local vec m[SLOTS * BLOCK]; /* large, and slot 0 stays 0 */
    const real *in[INPUTS];
    real *out[OUTPUTS];
    long row = begin;
    for (; row + ROWS <= end; row += ROWS) {
        for (int p = 0; p < INPUTS; p++) in[p] = inputs[p] + row * input_size[p];
        for (int p = 0; p < OUTPUTS; p++) out[p] = outputs[p] + row * output_size[p];
        run_block(in, out, m);
    }
    if (row >= end) return;
    /* the rest, its last row again and again to fill the block */
    static _Thread_local real in_rest[ROWS * INPUT_ENTRIES], out_rest[ROWS * OUTPUT_ENTRIES];
    real *to = in_rest;
    for (int p = 0; p < INPUTS; p++) {
        in[p] = to;
        for (long r = 0; r < ROWS; r++, to += input_size[p])
            memcpy(to, inputs[p] + (row + r < end ? row + r : end - 1) * input_size[p], input_size[p] * sizeof(real));
    }
    to = out_rest;
    for (int p = 0; p < OUTPUTS; to += ROWS * output_size[p++]) out[p] = to;
    run_block(in, out, m);
    for (int p = 0; p < OUTPUTS; p++)
        memcpy(outputs[p] + row * output_size[p], out[p], (end - row) * output_size[p] * sizeof(real));
}

void DG_NAME(KERNEL_ONE)(const real *const inputs[], real *const outputs[]) {
    real m[SLOTS];
    m[0] = 0;
    const short *slot = input_slot;
    for (int p = 0; p < INPUTS; slot += input_size[p++])
        for (int j = 0; j < input_size[p]; j++) m[slot[j]] = inputs[p][j];
    for (int a = 0; a < ANGLES; a += DG_LANES) {
        vec angle = {0}, sine, cosine;
        const int count = ANGLES - a < DG_LANES ? ANGLES - a : DG_LANES;
        for (int r = 0; r < count; r++) angle[r] = m[angle_slot[a + r]];
        dg_sincos(angle, &sine, &cosine);
        for (int r = 0; r < count; r++) {
            if (sine_slot[a + r]) m[sine_slot[a + r]] = sine[r];
            if (cosine_slot[a + r]) m[cosine_slot[a + r]] = cosine[r];
        }
    }
    one_segments(m);
    slot = output_slot;
    for (int p = 0; p < OUTPUTS; slot += output_size[p++])
        for (int j = 0; j < output_size[p]; j++) outputs[p][j] = m[slot[j]];
}
