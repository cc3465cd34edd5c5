#include <string.h>

/* out = -minv times given, sample by sample: (SIZE, SIZE) matrices in rows, `batch` of them each. */
void less_product(const float *restrict minv, const float *restrict given, float *restrict out, long batch) {
    for (long b = 0; b < batch; b++, minv += SIZE * SIZE, given += SIZE * SIZE, out += SIZE * SIZE)
        for (int i = 0; i < SIZE; i++) {
            float row[SIZE] = {0};
            for (int k = 0; k < SIZE; k++)
                for (int j = 0; j < SIZE; j++) row[j] -= minv[i * SIZE + k] * given[k * SIZE + j];
            memcpy(out + i * SIZE, row, sizeof row);
        }
}
