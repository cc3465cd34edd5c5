/* Persistent threads that share the rows of a batch.
 *
 * One that has just worked looks out for more for a while before it sleeps: to wake it takes tens of microseconds. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOKOUT_NS 100000
#define ROWS 64 /* shares are whole multiples: of every vector's length, so that the last one alone has a tail */

typedef int (*rows_kernel)(const void *const *, void *const *, long, long);
typedef int (*planes_kernel)(const void *const *, void *const *, long, long, long, long);

/* in_stride: 0 for rows */
typedef struct {
    void *kernel;
    const void *const *inputs;
    void *const *outputs;
    long in_stride, out_stride, begin, end;
} share;

enum { IDLE, GIVEN, DONE, END };

typedef struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_int state, asleep;
    share work;
    int result;
} worker;

typedef struct {
    pid_t process; /* the threads do not follow into a fork */
    int count;
    worker workers[];
} pool;

static int compute(const share *s) {
    if (s->begin >= s->end) return 0;
    if (s->in_stride)
        return ((planes_kernel)s->kernel)(s->inputs, s->outputs, s->in_stride, s->out_stride, s->begin, s->end);
    return ((rows_kernel)s->kernel)(s->inputs, s->outputs, s->begin, s->end);
}

static long nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec * 1000000000L + t.tv_nsec;
}

static int waiting(worker *w) {
    const int state = atomic_load(&w->state);
    return state == IDLE || state == DONE;
}

static void give(worker *w, int state) {
    atomic_store(&w->state, state);
    if (!atomic_load(&w->asleep)) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

static void *work(void *argument) {
    worker *w = argument;
    for (;;) {
        const long begin = nanoseconds();
        while (waiting(w) && nanoseconds() - begin < LOOKOUT_NS) continue;
        if (waiting(w)) {
            pthread_mutex_lock(&w->lock);
            atomic_store(&w->asleep, 1);
            while (waiting(w)) pthread_cond_wait(&w->wake, &w->lock);
            atomic_store(&w->asleep, 0);
            pthread_mutex_unlock(&w->lock);
        }
        if (atomic_load(&w->state) == END) return NULL;
        w->result = compute(&w->work);
        atomic_store(&w->state, DONE);
    }
}

void dynagate_pool_end(pool *p) {
    if (p->process == getpid())
        for (int k = 0; k < p->count; k++) {
            give(&p->workers[k], END);
            pthread_join(p->workers[k].thread, NULL);
            pthread_cond_destroy(&p->workers[k].wake);
            pthread_mutex_destroy(&p->workers[k].lock);
        }
    free(p);
}

/* count threads beside the calling one. NULL: the system has no more. */
pool *dynagate_pool_begin(int count) {
    pool *p = calloc(1, sizeof *p + count * sizeof(worker));
    if (!p) return NULL;
    p->process = getpid();
    for (; p->count < count; p->count++) {
        worker *w = &p->workers[p->count];
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->wake, NULL);
        if (pthread_create(&w->thread, NULL, work, w)) {
            pthread_mutex_destroy(&w->lock);
            pthread_cond_destroy(&w->wake);
            dynagate_pool_end(p);
            return NULL;
        }
    }
    return p;
}

/* A kernel on the rows of a batch; returns whether it returned other than 0 anywhere. From one thread at a time. p: NULL for
 * the calling thread alone. */
int dynagate_pool_run(pool *p, void *kernel, const void *const *inputs, void *const *outputs, long in_stride,
                      long out_stride, long batch) {
    const long chunks = (batch + ROWS - 1) / ROWS, shares = p && p->process == getpid() ? p->count + 1 : 1;
    share own = {kernel, inputs, outputs, in_stride, out_stride, 0, batch};
    for (int k = 1; k < shares; k++) {
        const long begin = chunks * k / shares * ROWS, end = chunks * (k + 1) / shares * ROWS;
        if (k == 1) own.end = begin;
        p->workers[k - 1].work = (share){kernel, inputs, outputs, in_stride, out_stride, begin, end < batch ? end : batch};
        give(&p->workers[k - 1], GIVEN);
    }
    int result = compute(&own);
    for (int k = 1; k < shares; k++) {
        worker *w = &p->workers[k - 1];
        for (long tries = 0; atomic_load(&w->state) != DONE; tries++)
            if (tries > 1000) sched_yield();
        result |= w->result;
    }
    return result;
}
