/* Times one of CasADi's generated functions: nanoseconds per call, for every repeat over all states. */
#include <time.h>

typedef int (*function)(const double **, double **, long long *, double *, int);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

void dynagate_time(function call, const double *q, const double *v, const double *u, long nq, long nv, long states,
                   double **results, long long *iw, double *w, long repeats, double *ns) {
    for (long r = 0; r < repeats; r++) {
        const double start = now();
        for (long i = 0; i < states; i++) {
            const double *arguments[] = {q + i * nq, v + i * nv, u + i * nv};
            call(arguments, results, iw, w, 0);
        }
        ns[r] = (now() - start) / states;
    }
}
