/* Host side of a generated kernel: batches in host memory through pinned buffers, and launches on arrays of a GPU.
 *
 * The generated file defines before it includes this: real, INPUTS, OUTPUTS, ports (entries of each, inputs first), and
 * launch(inputs, outputs, batch, planes, stream). Functions return NULL, or what failed. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS (INPUTS + OUTPUTS)
#define CHUNK_BYTES (32L << 20) /* of a chunk's arrays; two chunks are under way at a time */
#define LEAST_ROWS 256
#define MOST_ROWS 16384

#define CHECK(call)                                                \
    do {                                                           \
        const cudaError_t status = (call);                         \
        if (status != cudaSuccess) return failed(#call, status);   \
    } while (0)

static thread_local char message[512];

static const char *failed(const char *call, cudaError_t status) {
    cudaGetLastError(); /* forgets it, unless it is for good */
    snprintf(message, sizeof message, "%.*s: %s", (int)strcspn(call, "("), call, cudaGetErrorString(status));
    return message;
}

/* A chunk of a batch on its way: rows from `row` on, none if rows is 0. */
struct chunk {
    cudaStream_t stream;
    real *device[PORTS], *pinned[PORTS];
    long row, rows;
};

struct context {
    int device;
    long most; /* rows of a chunk */
    chunk chunks[2];
};

static const char *begin(context *c) {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(c->device));
    for (chunk &k : c->chunks) {
        CHECK(cudaStreamCreateWithFlags(&k.stream, cudaStreamNonBlocking));
        for (int p = 0; p < PORTS; p++) {
            const size_t bytes = (size_t)c->most * ports[p] * sizeof(real);
            CHECK(cudaMalloc((void **)&k.device[p], bytes));
            CHECK(cudaMallocHost((void **)&k.pinned[p], bytes));
            CHECK(cudaMemsetAsync(k.device[p], 0, bytes, k.stream)); /* entries that are always zero are not written */
        }
    }
    return NULL;
}

static void end(context *c) {
    for (chunk &k : c->chunks) {
        if (k.stream) cudaStreamSynchronize(k.stream);
        for (int p = 0; p < PORTS; p++) {
            cudaFree(k.device[p]);
            cudaFreeHost(k.pinned[p]);
        }
        if (k.stream) cudaStreamDestroy(k.stream);
    }
    free(c);
}

/* Rows of an array to or from a chunk's own copy, in which planes lie `rows` apart. */
static void copy(real *array, real *own, int entries, long row, long rows, long batch, int planes, int out) {
    const long runs = planes ? entries : 1, length = planes ? rows : rows * entries;
    for (long j = 0; j < runs; j++) {
        real *there = array + (planes ? j * batch + row : row * entries), *here = own + j * rows;
        memcpy(out ? there : here, out ? here : there, length * sizeof(real));
    }
}

static const char *start(chunk *k, real *const *inputs, long batch, int planes) {
    for (int p = 0; p < INPUTS; p++) {
        copy(inputs[p], k->pinned[p], ports[p], k->row, k->rows, batch, planes, 0);
        const size_t bytes = (size_t)k->rows * ports[p] * sizeof(real);
        CHECK(cudaMemcpyAsync(k->device[p], k->pinned[p], bytes, cudaMemcpyHostToDevice, k->stream));
    }
    launch(k->device, k->device + INPUTS, k->rows, planes, k->stream);
    CHECK(cudaGetLastError());
    for (int p = INPUTS; p < PORTS; p++) {
        const size_t bytes = (size_t)k->rows * ports[p] * sizeof(real);
        CHECK(cudaMemcpyAsync(k->pinned[p], k->device[p], bytes, cudaMemcpyDeviceToHost, k->stream));
    }
    return NULL;
}

static const char *finish(chunk *k, real *const *outputs, long batch, int planes) {
    const long rows = k->rows;
    k->rows = 0;
    if (!rows) return NULL;
    CHECK(cudaStreamSynchronize(k->stream));
    for (int p = 0; p < OUTPUTS; p++)
        copy(outputs[p], k->pinned[INPUTS + p], ports[INPUTS + p], k->row, rows, batch, planes, 1);
    return NULL;
}

static const char *run(context *c, real *const *inputs, real *const *outputs, long batch, int planes) {
    CHECK(cudaSetDevice(c->device));
    int turn = 0;
    for (long row = 0; row < batch; row += c->most, turn ^= 1) {
        chunk *k = &c->chunks[turn];
        if (const char *fault = finish(k, outputs, batch, planes)) return fault;
        k->row = row;
        k->rows = batch - row < c->most ? batch - row : c->most;
        if (const char *fault = start(k, inputs, batch, planes)) return fault;
    }
    for (int last = 0; last < 2; last++, turn ^= 1)
        if (const char *fault = finish(&c->chunks[turn], outputs, batch, planes)) return fault;
    return NULL;
}

extern "C" const char *dynagate_cuda_open(int device, context **opened) {
    context *c = (context *)calloc(1, sizeof *c);
    if (!c) return "calloc: out of memory";
    long row = 0;
    for (int p = 0; p < PORTS; p++) row += ports[p] * (long)sizeof(real);
    const long fit = CHUNK_BYTES / row;
    c->device = device;
    c->most = fit < LEAST_ROWS ? LEAST_ROWS : fit > MOST_ROWS ? MOST_ROWS : fit;
    const char *fault = begin(c);
    if (fault) end(c);
    else *opened = c;
    return fault;
}

extern "C" void dynagate_cuda_close(context *c) { end(c); }

/* Arrays in host memory; comes back when the results are there. */
extern "C" const char *dynagate_cuda_run(context *c, real *const *inputs, real *const *outputs, long batch, int planes) {
    const char *fault = run(c, inputs, outputs, batch, planes);
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
    launch(inputs, outputs, batch, planes, stream);
    CHECK(cudaGetLastError());
    return NULL;
}
