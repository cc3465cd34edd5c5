/* XLA's calls of compiled kernels: rows (batch, ...) of every array, as they lie in memory.
 *
 * A kernel is known by a key, the hash of its source, under which Python has added its addresses. A program that XLA
 * kept from another process thus finds the kernel, or an error that names what is missing, and never a stale address. */
#include <cstdint>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

typedef int (*rows_kernel)(const void *const *, void *const *, long, long);
typedef int (*one_kernel)(const void *const *, void *const *);
typedef int (*loop_kernel)(const void *const *, const long *, void *const *, const long *, long, long, long);
typedef int (*host_function)(const void *const *, void *const *, long, char *, long);
typedef const char *(*gpu_launch)(void *, void *const *, void *const *, long, int, void *);

struct functions {
    void *call, *other; /* rows and one; the loop; a Python function; launch and the context on its card */
};

static std::shared_mutex lock;
static std::unordered_map<int64_t, functions> &table() {
    static std::unordered_map<int64_t, functions> entries;
    return entries;
}

extern "C" void dynagate_ffi_add(int64_t key, void *call, void *other) {
    std::unique_lock<std::shared_mutex> held(lock);
    table()[key] = {call, other};
}

static bool known(int64_t key, functions *result) {
    std::shared_lock<std::shared_mutex> held(lock);
    const auto entry = table().find(key);
    if (entry == table().end()) return false;
    *result = entry->second;
    return true;
}

static ffi::Error missing(int64_t key) {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                      "dynagate kernel " + std::to_string(key) +
                          " is not in this process; expected its operator made before the program runs");
}

struct call {
    std::vector<const void *> in;
    std::vector<void *> out;
    std::vector<long> in_size, out_size; /* entries of each array */
    long batch;
    bool wide; /* float64 */

    /* size: entries of a row of the first input */
    call(ffi::RemainingArgs arguments, ffi::RemainingRets results, int64_t size) {
        for (size_t k = 0; k < arguments.size(); k++) {
            const auto buffer = arguments.get<ffi::AnyBuffer>(k).value();
            in.push_back(buffer.untyped_data());
            in_size.push_back((long)buffer.element_count());
        }
        for (size_t k = 0; k < results.size(); k++) {
            auto buffer = results.get<ffi::AnyBuffer>(k).value();
            out.push_back(buffer->untyped_data());
            out_size.push_back((long)buffer->element_count());
        }
        batch = in_size[0] / (long)size;
        wide = arguments.get<ffi::AnyBuffer>(0).value().element_type() == ffi::DataType::F64;
    }
};

/* Zeros in an entry of all rows of an array, which has so many entries. */
template <typename real> static void clear(void *array, long size, long batch, int64_t entry) {
    for (long row = 0; row < batch; row++) ((real *)array)[row * size + entry] = 0;
}

/* zeros: pairs of an output and an entry of its rows that is always zero, which the kernel does not write. Results that
 * are not finite are NaN or infinite, so its status is not needed. */
static ffi::Error rows(int64_t key, int64_t size, ffi::Span<const int64_t> zeros, ffi::RemainingArgs arguments,
                       ffi::RemainingRets results) {
    functions kernel;
    if (!known(key, &kernel)) return missing(key);
    call c(arguments, results, size);
    if (!c.batch) return ffi::Error::Success();
    if (c.batch == 1) ((one_kernel)kernel.other)(c.in.data(), c.out.data());
    else ((rows_kernel)kernel.call)(c.in.data(), c.out.data(), 0, c.batch);
    for (size_t k = 0; k + 1 < zeros.size(); k += 2) {
        const auto clear_entry = c.wide ? clear<double> : clear<float>;
        clear_entry(c.out[zeros[k]], c.out_size[zeros[k]] / c.batch, c.batch, zeros[k + 1]);
    }
    return ffi::Error::Success();
}

/* first: for each output, the input that is its first row, before those of the iterations; -1 where it has none. An input
 * per iteration may have more rows than iterations. */
static ffi::Error loop(int64_t key, int64_t size, int64_t iterations, ffi::Span<const int64_t> first,
                       ffi::RemainingArgs arguments, ffi::RemainingRets results) {
    functions kernel;
    if (!known(key, &kernel)) return missing(key);
    call c(arguments, results, size);
    if (!c.batch) return ffi::Error::Success();
    for (long &entries : c.in_size) entries /= c.batch;
    for (long &entries : c.out_size) entries /= c.batch;
    const size_t number = c.wide ? sizeof(double) : sizeof(float);
    for (size_t k = 0; k < c.out.size(); k++) {
        if (first[k] < 0) continue;
        const size_t row = c.in_size[first[k]] * number;
        for (long b = 0; b < c.batch; b++)
            std::memcpy((char *)c.out[k] + b * c.out_size[k] * number, (const char *)c.in[first[k]] + b * row, row);
        c.out[k] = (char *)c.out[k] + row;
    }
    ((loop_kernel)kernel.call)(c.in.data(), c.in_size.data(), c.out.data(), c.out_size.data(), iterations, 0, c.batch);
    return ffi::Error::Success();
}

/* A Python function, through ctypes, which takes the interpreter's lock. */
static ffi::Error host(int64_t key, int64_t size, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
    functions kernel;
    if (!known(key, &kernel)) return missing(key);
    call c(arguments, results, size);
    if (!c.batch) return ffi::Error::Success();
    char text[2048] = "";
    if (((host_function)kernel.call)(c.in.data(), c.out.data(), c.batch, text, sizeof text))
        return ffi::Error(ffi::ErrorCode::kInternal, text);
    return ffi::Error::Success();
}

/* On XLA's stream; it comes back at once. */
static ffi::Error gpu(void *stream, int64_t key, int64_t size, ffi::RemainingArgs arguments,
                      ffi::RemainingRets results) {
    functions kernel;
    if (!known(key, &kernel)) return missing(key);
    call c(arguments, results, size);
    const char *fault = ((gpu_launch)kernel.call)(kernel.other, (void *const *)c.in.data(), c.out.data(), c.batch, 0,
                                                  stream);
    return fault ? ffi::Error(ffi::ErrorCode::kInternal, fault) : ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(dynagate_rows, rows,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("key")
                                  .Attr<int64_t>("size")
                                  .Attr<ffi::Span<const int64_t>>("zeros")
                                  .RemainingArgs()
                                  .RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(dynagate_loop, loop,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("key")
                                  .Attr<int64_t>("size")
                                  .Attr<int64_t>("iterations")
                                  .Attr<ffi::Span<const int64_t>>("first")
                                  .RemainingArgs()
                                  .RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(dynagate_host, host,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("key")
                                  .Attr<int64_t>("size")
                                  .RemainingArgs()
                                  .RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(dynagate_gpu, gpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Attr<int64_t>("key")
                                  .Attr<int64_t>("size")
                                  .RemainingArgs()
                                  .RemainingRets());
