/* Host side of generated kernels: batches in host memory, and launches on arrays of a GPU.
 *
 * The generated file defines before it includes this: real, INPUTS, OUTPUTS, ports (entries of each, inputs first),
 * every (in how many iterations of a loop a port has as many entries again; 0: it has them once), prepare(), once per card, and
 * launch(inputs, outputs, batch, iterations, planes, stream). Functions return NULL, or what failed. */
#include <stdlib.h>
#include <string.h>

#include "dynagate_cuda_check.h"

#define PORTS (INPUTS + OUTPUTS)
#define CHUNK_BYTES (32L << 20) /* of a chunk's arrays; two chunks are under way at a time */
#define LEAST_ROWS 256
#define MOST_ROWS 16384
#define APART 32 /* arrays of a chunk begin so many numbers apart */

/* A chunk of a batch on its way: rows from `row` on, none if rows is 0. Its arrays lie one after another, on the GPU and
 * in pinned memory alike, so that all inputs, and all outputs, are one copy. */
struct chunk {
    cudaStream_t stream;
    real *device, *pinned;
    long row, rows;
    long cleared; /* where entries that are always zero are so: for so many rows, if negative as rows, else as planes */
};

struct context {
    int device;
    long iterations; /* of a loop; 1 of a graph */
    long most; /* rows of a chunk */
    chunk chunks[2];
};

/* Numbers of a port in a sample. */
static long entries(const context *c, int port) { return ports[port] * (every[port] ? c->iterations / every[port] : 1); }

/* Where a port's array begins in a chunk of so many rows; PORTS: where the last one ends. */
static long begins(const context *c, int port, long rows) {
    long at = 0;
    for (int p = 0; p < port; p++) at += (entries(c, p) * rows + APART - 1) / APART * APART;
    return at;
}

static const char *begin(context *c) {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(c->device));
    CHECK(prepare());
    const size_t bytes = begins(c, PORTS, c->most) * sizeof(real);
    for (chunk &k : c->chunks) {
        CHECK(cudaStreamCreateWithFlags(&k.stream, cudaStreamNonBlocking));
        CHECK(cudaMalloc((void **)&k.device, bytes));
        CHECK(cudaMallocHost((void **)&k.pinned, bytes));
    }
    return NULL;
}

static void end(context *c) {
    for (chunk &k : c->chunks) {
        if (k.stream) cudaStreamSynchronize(k.stream);
        cudaFree(k.device);
        cudaFreeHost(k.pinned);
        if (k.stream) cudaStreamDestroy(k.stream);
    }
    free(c);
}

/* Rows of an array to or from a chunk's own copy, in which planes lie `rows` apart. */
static void copy(real *array, real *own, long size, long row, long rows, long batch, int planes, int out) {
    const long runs = planes ? size : 1, length = planes ? rows : rows * size;
    for (long j = 0; j < runs; j++) {
        real *there = array + (planes ? j * batch + row : row * size), *here = own + j * rows;
        memcpy(out ? there : here, out ? here : there, length * sizeof(real));
    }
}

/* A call: arrays in host memory. direct: outputs are pinned rows, to which the GPU writes by itself. */
struct arrays {
    real *const *inputs, *const *outputs;
    long batch;
    int planes, direct;
};

static const char *start(const context *c, chunk *k, const arrays &a) {
    const long rows = k->rows, as = a.planes ? rows : -rows;
    const long middle = begins(c, INPUTS, rows), end = begins(c, PORTS, rows);
    real *device[PORTS];
    for (int p = 0; p < PORTS; p++) device[p] = k->device + begins(c, p, rows);
    if (k->cleared != as) {
        k->cleared = 0;
        CHECK(cudaMemsetAsync(k->device + middle, 0, (end - middle) * sizeof(real), k->stream));
        k->cleared = as;
    }
    for (int p = 0; p < INPUTS; p++)
        copy(a.inputs[p], k->pinned + begins(c, p, rows), entries(c, p), k->row, rows, a.batch, a.planes, 0);
    CHECK(cudaMemcpyAsync(k->device, k->pinned, middle * sizeof(real), cudaMemcpyHostToDevice, k->stream));
    launch(device, device + INPUTS, rows, c->iterations, a.planes, k->stream);
    CHECK(cudaGetLastError());
    if (!a.direct) {
        const size_t bytes = (end - middle) * sizeof(real);
        CHECK(cudaMemcpyAsync(k->pinned + middle, k->device + middle, bytes, cudaMemcpyDeviceToHost, k->stream));
        return NULL;
    }
    for (int p = 0; p < OUTPUTS; p++) {
        const long size = entries(c, INPUTS + p);
        const size_t bytes = rows * size * sizeof(real);
        real *to = a.outputs[p] + k->row * size;
        CHECK(cudaMemcpyAsync(to, device[INPUTS + p], bytes, cudaMemcpyDeviceToHost, k->stream));
    }
    return NULL;
}

static const char *finish(const context *c, chunk *k, const arrays &a) {
    const long rows = k->rows;
    k->rows = 0;
    if (!rows) return NULL;
    CHECK(cudaStreamSynchronize(k->stream));
    for (int p = INPUTS; p < PORTS && !a.direct; p++)
        copy(a.outputs[p - INPUTS], k->pinned + begins(c, p, rows), entries(c, p), k->row, rows, a.batch, a.planes, 1);
    return NULL;
}

static const char *run(context *c, const arrays &a) {
    CHECK(cudaSetDevice(c->device));
    int chunk_index = 0;
    for (long row = 0; row < a.batch; row += c->most, chunk_index ^= 1) {
        chunk *k = &c->chunks[chunk_index];
        if (const char *fault = finish(c, k, a)) return fault;
        k->row = row;
        k->rows = a.batch - row < c->most ? a.batch - row : c->most;
        if (const char *fault = start(c, k, a)) return fault;
    }
    for (int last = 0; last < 2; last++, chunk_index ^= 1)
        if (const char *fault = finish(c, &c->chunks[chunk_index], a)) return fault;
    return NULL;
}

extern "C" const char *dynagate_cuda_open(int device, long iterations, context **opened) {
    context *c = (context *)calloc(1, sizeof *c);
    if (!c) return "calloc: out of memory";
    c->iterations = iterations;
    long row = 0;
    for (int p = 0; p < PORTS; p++) row += entries(c, p) * (long)sizeof(real);
    const long fit = CHUNK_BYTES / row;
    c->device = device;
    c->most = fit < LEAST_ROWS ? LEAST_ROWS : fit > MOST_ROWS ? MOST_ROWS : fit;
    const char *fault = begin(c);
    if (fault) end(c);
    else *opened = c;
    return fault;
}

extern "C" void dynagate_cuda_close(context *c) { end(c); }

/* Arrays in host memory; comes back when the results are there. direct: outputs are rows in pinned memory. */
extern "C" const char *dynagate_cuda_run(context *c, real *const *inputs, real *const *outputs, long batch, int planes,
                                         int direct) {
    const char *fault = run(c, {inputs, outputs, batch, planes, direct});
    if (fault)
        for (chunk &k : c->chunks) {
            k.rows = 0;
            cudaStreamSynchronize(k.stream);
        }
    return fault;
}

/* Arrays in the GPU's memory, on a stream of the caller's, which may be capturing a graph; comes back at once. */
extern "C" const char *dynagate_cuda_launch(context *c, real *const *inputs, real *const *outputs, long batch, int planes,
                                            cudaStream_t stream) {
    if (!batch) return NULL;
    CHECK(cudaSetDevice(c->device));
    launch(inputs, outputs, batch, c->iterations, planes, stream);
    CHECK(cudaGetLastError());
    return NULL;
}

/* Waits for what is queued on a stream of the caller's. */
extern "C" const char *dynagate_cuda_wait(context *c, cudaStream_t stream) {
    CHECK(cudaSetDevice(c->device));
    CHECK(cudaStreamSynchronize(stream));
    return NULL;
}

/* Memory of the host that the GPU reads and writes by itself. */
extern "C" const char *dynagate_cuda_pinned(size_t bytes, void **memory) {
    CHECK(cudaMallocHost(memory, bytes));
    return NULL;
}

extern "C" void dynagate_cuda_unpinned(void *memory) { cudaFreeHost(memory); }
