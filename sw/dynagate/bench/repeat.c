#define _POSIX_C_SOURCE 199309L
#include <time.h>

typedef int (*single)(const void *const *, void *const *);

/* One sample again and again, from C: what a call costs without Python around it. */
void repeat(single one, const void *const *inputs, void *const *outputs, long count) {
    for (long k = 0; k < count; k++) one(inputs, outputs);
}

/* The nanoseconds of each call. ns: as many numbers as calls. */
void each(single one, const void *const *inputs, void *const *outputs, long count, double *ns) {
    struct timespec before, after;
    for (long k = 0; k < count; k++) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        one(inputs, outputs);
        clock_gettime(CLOCK_MONOTONIC, &after);
        ns[k] = 1e9 * (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec);
    }
}
