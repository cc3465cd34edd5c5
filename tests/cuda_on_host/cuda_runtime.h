/* As much of CUDA's runtime as dynagate_cuda.h uses, in host memory: so that its order of copies, launches and waits, and
 * what it does when a call fails, are checked without a GPU. Copies to the host arrive when the stream is waited for.
 * CUDA_ON_HOST_FAIL=NAME:N lets the N-th call of a function fail; CUDA_ON_HOST_CARDS says how many cards there are. */
#pragma once
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100, cudaErrorInvalidDevice = 101 };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaStreamNonBlocking = 1 };

struct arriving {
    void *to;
    std::vector<char> bytes;
};
typedef struct stream_on_host {
    std::vector<arriving> copies;
} *cudaStream_t;

static int live; /* allocations and streams */

static int fails(const char *name) {
    static int calls;
    const char *wanted = getenv("CUDA_ON_HOST_FAIL");
    if (!wanted) return calls = 0;
    const std::string text = wanted;
    const size_t colon = text.find(':');
    return text.substr(0, colon) == name && ++calls == atoi(text.c_str() + colon + 1);
}

static cudaError_t pending;

static cudaError_t cudaGetLastError() {
    if (fails("cudaGetLastError")) return 98;
    const cudaError_t last = pending;
    pending = cudaSuccess;
    return last;
}

static const char *cudaGetErrorString(cudaError_t status) {
    return status == cudaErrorMemoryAllocation ? "out of memory"
           : status == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
           : status == cudaErrorInvalidDevice  ? "invalid device ordinal"
                                               : "failed on request";
}

static int cards() { return getenv("CUDA_ON_HOST_CARDS") ? atoi(getenv("CUDA_ON_HOST_CARDS")) : 1; }

static cudaError_t cudaGetDeviceCount(int *count) { return (*count = cards()) ? cudaSuccess : cudaErrorNoDevice; }

static cudaError_t cudaSetDevice(int device) {
    return device >= 0 && device < cards() ? cudaSuccess : cudaErrorInvalidDevice;
}

static cudaError_t cudaMalloc(void **to, size_t bytes) {
    if (fails("cudaMalloc")) return pending = cudaErrorMemoryAllocation;
    memset(*to = malloc(bytes), 0x7f, bytes);
    live++;
    return cudaSuccess;
}

static cudaError_t cudaFree(void *of) {
    live -= of != nullptr;
    free(of);
    return cudaSuccess;
}

static cudaError_t cudaMallocHost(void **to, size_t bytes) {
    return fails("cudaMallocHost") ? pending = cudaErrorMemoryAllocation : cudaMalloc(to, bytes);
}

static cudaError_t cudaFreeHost(void *of) { return cudaFree(of); }

static cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    if (fails("cudaStreamCreateWithFlags")) return pending = 98;
    *stream = new stream_on_host;
    live++;
    return cudaSuccess;
}

static cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const bool is_default = (size_t)stream <= 2; /* no stream, or one of CUDA's two default streams: nothing is queued */
    if (is_default) return fails("cudaStreamSynchronize") ? pending = 98 : cudaSuccess;
    for (const arriving &copy : stream->copies) memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    stream->copies.clear();
    return fails("cudaStreamSynchronize") ? pending = 98 : cudaSuccess;
}

static cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    live--;
    return cudaSuccess;
}

static cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    if (fails("cudaMemsetAsync")) return pending = 98;
    memset(to, value, bytes);
    return cudaSuccess;
}

static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int way, cudaStream_t stream) {
    if (fails("cudaMemcpyAsync")) return pending = 98;
    const char *begin = (const char *)from;
    if (way == cudaMemcpyDeviceToHost) stream->copies.push_back({to, {begin, begin + bytes}});
    else memcpy(to, from, bytes);
    return cudaSuccess;
}

extern "C" int cuda_on_host_live() { return live; }

/* A stream on which a copy to this memory is queued, and how many are: as of a library that computes an array. */
extern "C" cudaStream_t cuda_on_host_queued(void *to, const char *from, size_t bytes) {
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess)
        stream->copies.push_back({to, {from, from + bytes}});
    return stream;
}

extern "C" void cuda_on_host_destroy(cudaStream_t stream) { cudaStreamDestroy(stream); }
