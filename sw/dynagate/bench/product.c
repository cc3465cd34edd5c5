#include <string.h>

/* out = -minv times given, sample by sample: (n, n) matrices in rows, `batch` of them each. */
void less_product(const float *restrict minv, const float *restrict given, float *restrict out, long batch, long n) {
    for (long b = 0; b < batch; b++, minv += n * n, given += n * n, out += n * n) {
        memset(out, 0, n * n * sizeof *out);
        for (long i = 0; i < n; i++)
            for (long k = 0; k < n; k++) {
                const float weight = minv[i * n + k];
                for (long j = 0; j < n; j++) out[i * n + j] -= weight * given[k * n + j];
            }
    }
}
