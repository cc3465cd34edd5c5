/* How results lie to inputs in memory. Included after `real`. */
#ifndef DYNAGATE_OVERLAP_H
#define DYNAGATE_OVERLAP_H
#include <stdlib.h>

/* The end of the numbers of `end` samples in an array of `size` entries a sample. */
DG_INLINE const real *dg_end_of(const real *array, int size, long stride, long end) {
    return stride ? array + (size - 1) * stride + end : array + size * end;
}

/* Results are apart from inputs, over the same samples, or over other samples: kernels refuse the last. */
enum { APART = 0, IN_PLACE = 1, TANGLED = 2 };
static int dg_overlap(const real *const *inputs, const int *input_size, int input_count, long in_stride,
                      real *const *outputs, const int *output_size, int output_count, long out_stride, long end) {
    int closest = APART;
    for (int i = 0; i < input_count; i++)
        for (int o = 0; o < output_count; o++) {
            const real *const in = inputs[i], *const out = outputs[o];
            if (in >= dg_end_of(out, output_size[o], out_stride, end) || out >= dg_end_of(in, input_size[i], in_stride, end))
                continue;
            if (in_stride != out_stride || (!in_stride && (in != out || input_size[i] != output_size[o]))) return TANGLED;
            const long shift = in_stride ? labs(out - in) % in_stride : 0; /* of samples */
            if (shift && (shift < end || in_stride - shift < end)) return TANGLED;
            if (!shift) closest = IN_PLACE;
        }
    return closest;
}
#endif
