/* The loops of dynagate_chain.h in CUDA: a thread per sample. What an algorithm keeps lies in the card's memory, entry by
 * entry for all threads side by side, so that a warp reads and writes whole lines of it. There are as many threads as fit
 * into WORK_BYTES; each takes every so many samples.
 *
 * CHAIN_ALGORITHM, CHAIN_WORK: aba and ABA_WORK, or another. The same text compiles as host code, where threads take turns.
 * Functions return what went wrong, or NULL. */
#include <stdint.h>
#include <stdlib.h>

#ifdef DYNAGATE_DOUBLE
typedef double real;
#else
typedef float real;
#endif
#define NUMBER real
#include "dynagate_sample.cuh"

#ifdef __CUDACC__
#define ON_CARD __device__ __forceinline__
#define DG_CONSTANT static __device__ const
#define DG_LOOP static __device__
#else
#define ON_CARD inline
#define DG_CONSTANT static const
#define DG_LOOP static
#endif
typedef real vec;
struct vecs {
    real *at;
    long apart;
    ON_CARD real &operator[](long k) const { return at[k * apart]; }
    ON_CARD vecs operator+(long k) const { return {at + k * apart, apart}; }
};
#define DG_STEP(...) template <__VA_ARGS__> static ON_CARD
#define DG_READ(type) const type
#define DG_WRITE(type) const type
#define DG_ALL(x) ((vec)(x))
#include "dynagate_chain.h"

#define THREADS 64 /* in a block */
#ifndef WORK_BYTES
#define WORK_BYTES (1L << 30)   /* of the card's memory for what the algorithm keeps */
#define SAMPLE_BYTES (1L << 28) /* and for the samples that it holds at once */
#endif

DG_LOOP void samples(const chain *c, const real *q, const real *qd, const real *tau, real *qdd, long batch, long first,
                     long threads, vecs work) {
    const long n = c->links;
    const state s = {work, work + 2 * n, work + 3 * n, work + 4 * n};
    for (long b = first; b < batch; b += threads) {
        for (long i = 0; i < n; i++) {
            const real x = q[b * n + i];
            if (c->slides[i])
                s.turn[2 * i] = s.turn[2 * i + 1] = x;
            else
                sine_cosine(x, &s.turn[2 * i + 1], &s.turn[2 * i]);
            s.rate[i] = qd[b * n + i];
            s.torque[i] = tau[b * n + i];
        }
        CHAIN_ALGORITHM(c, &s, work + STATE_WORK(n));
        for (long i = 0; i < n; i++) qdd[b * n + i] = s.qdd[i];
    }
}

#include "dynagate_cuda_check.h"

#ifdef __CUDACC__
__global__ void __launch_bounds__(THREADS) each(chain c, const real *q, const real *qd, const real *tau, real *qdd,
                                                long batch, long threads, real *work) {
    const long t = (long)blockIdx.x * blockDim.x + threadIdx.x;
    samples(&c, q, qd, tau, qdd, batch, t, threads, {work + t, threads});
}
#define LAUNCH(c, threads, stream, ...) each<<<(threads) / THREADS, THREADS, 0, stream>>>(c, __VA_ARGS__)
#else
static void each(chain c, const real *q, const real *qd, const real *tau, real *qdd, long batch, long threads, real *work) {
    for (long t = 0; t < threads; t++) samples(&c, q, qd, tau, qdd, batch, t, threads, {work + t, threads});
}
#define LAUNCH(c, threads, stream, ...) each(c, __VA_ARGS__)
#endif

struct context {
    int device;
    chain c;
    long threads, rows;      /* rows: samples at once */
    real *work, *arrays;     /* arrays: q, qd, tau, qdd of `rows` samples */
    void *constants[4];      /* of the chain, on the card */
    cudaStream_t stream;
};

static const char *begin(context *k, const chain *host) {
    const long n = host->links;
    const void *from[4] = {host->slides, host->numbers, host->blocks, host->base};
    const size_t bytes[4] = {n * sizeof(uint8_t), n * LINK_NUMBERS * sizeof(real), n * BLOCK_NUMBERS * sizeof(real),
                             6 * sizeof(real)};
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(k->device));
    CHECK(cudaStreamCreateWithFlags(&k->stream, cudaStreamNonBlocking));
    for (int p = 0; p < 4; p++) {
        CHECK(cudaMalloc(&k->constants[p], bytes[p]));
        CHECK(cudaMemcpyAsync(k->constants[p], from[p], bytes[p], cudaMemcpyHostToDevice, k->stream));
    }
    k->c = {n, (const uint8_t *)k->constants[0], (const real *)k->constants[1], (const real *)k->constants[2],
            (const real *)k->constants[3], host->refined};
    CHECK(cudaMalloc((void **)&k->work, k->threads * (STATE_WORK(n) + CHAIN_WORK(n)) * sizeof(real)));
    CHECK(cudaMalloc((void **)&k->arrays, 4 * k->rows * n * sizeof(real)));
    CHECK(cudaStreamSynchronize(k->stream));
    return NULL;
}

extern "C" void dynagate_chain_close(context *k) {
    for (void *constant : k->constants) cudaFree(constant);
    cudaFree(k->work);
    cudaFree(k->arrays);
    if (k->stream) cudaStreamDestroy(k->stream);
    free(k);
}

/* For calls of up to `most` samples at once. */
extern "C" const char *dynagate_chain_open(int device, const chain *host, long most, context **opened) {
    const long n = host->links, work = (STATE_WORK(n) + CHAIN_WORK(n)) * (long)sizeof(real);
    context *k = (context *)calloc(1, sizeof *k);
    if (!k) return "calloc: out of memory";
    const long blocks = (most + THREADS - 1) / THREADS, fit = WORK_BYTES / work / THREADS;
    k->device = device;
    k->threads = THREADS * (blocks < fit ? blocks : fit > 1 ? fit : 1);
    const long rows = SAMPLE_BYTES / (4 * n * (long)sizeof(real));
    k->rows = most < rows ? most : rows > 1 ? rows : 1;
    const char *wrong = begin(k, host);
    if (wrong) dynagate_chain_close(k);
    else *opened = k;
    return wrong;
}

/* Arrays (batch, links) in host memory; comes back when the results are there. */
extern "C" const char *dynagate_chain_run(context *k, const real *q, const real *qd, const real *tau, real *qdd, long batch) {
    const long n = k->c.links, size = k->rows * n;
    real *const device[4] = {k->arrays, k->arrays + size, k->arrays + 2 * size, k->arrays + 3 * size};
    CHECK(cudaSetDevice(k->device));
    for (long row = 0; row < batch; row += k->rows) {
        const long rows = batch - row < k->rows ? batch - row : k->rows;
        const size_t bytes = rows * n * sizeof(real);
        const real *const from[3] = {q + row * n, qd + row * n, tau + row * n};
        for (int p = 0; p < 3; p++) CHECK(cudaMemcpyAsync(device[p], from[p], bytes, cudaMemcpyHostToDevice, k->stream));
        LAUNCH(k->c, k->threads, k->stream, device[0], device[1], device[2], device[3], rows, k->threads, k->work);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(qdd + row * n, device[3], bytes, cudaMemcpyDeviceToHost, k->stream));
        CHECK(cudaStreamSynchronize(k->stream));
    }
    return NULL;
}
