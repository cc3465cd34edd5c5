/* What host code in CUDA says of calls that fail. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

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
