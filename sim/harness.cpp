// A Verilated datapath as a shared library: streams a batch through i and o and counts cycles.
// dynagate/sim/verilate.py compiles it beside the model; dynagate/host/links.py is its caller.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"
#include "vpi_user.h"

// Verilator writes the second of two underscores as ___05F; Amaranth's stream ports have two.
#define i__payload i___05Fpayload
#define i__valid i___05Fvalid
#define i__ready i___05Fready
#define o__payload o___05Fpayload
#define o__valid o___05Fvalid
#define o__ready o___05Fready

namespace {

template <typename T>
void put(T& port, const uint32_t* words) {  // a port of up to 64 bits is an integer
    port = static_cast<T>(words[0]);
    if (sizeof(T) == 8) port |= static_cast<T>(static_cast<uint64_t>(words[1]) << 32);
}
template <std::size_t N>
void put(VlWide<N>& port, const uint32_t* words) {
    std::memcpy(port.data(), words, N * sizeof(uint32_t));
}
template <typename T>
void get(const T& port, uint32_t* words) {
    words[0] = static_cast<uint32_t>(port);
    if (sizeof(T) == 8) words[1] = static_cast<uint32_t>(static_cast<uint64_t>(port) >> 32);
}
template <std::size_t N>
void get(const VlWide<N>& port, uint32_t* words) {
    std::memcpy(words, port.data(), N * sizeof(uint32_t));
}

template <typename T>
uint64_t words_of(const T&) { return sizeof(T) == 8 ? 2 : 1; }
template <std::size_t N>
uint64_t words_of(const VlWide<N>&) { return N; }

struct Random {  // xorshift64*: the pauses of a run follow from its seed
    uint64_t state;
    uint32_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return static_cast<uint32_t>((state * 2685821657736338717ULL) >> 32);
    }
    bool chance(uint32_t per_256) { return (next() & 255) < per_256; }
};

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    uint64_t cycle = 0;

    Device() : top(new Vtop(&context)) { reset(); }
    ~Device() { top->final(); }

    void reset() {
        top->clk = 0;
        top->i__valid = 0;
        top->o__ready = 0;
        top->rst = 1;
        for (int k = 0; k < 4; ++k) { settle(); tick(); }
        top->rst = 0;
        settle();
    }
    void settle() { top->eval(); }
    void tick() {
        top->clk = 1;
        top->eval();
        top->clk = 0;
        ++cycle;
    }
};

}  // namespace

// Where a batch's stream is: all zero but the random state at its beginning. Cycles are the device's own count.
struct Stream {
    uint64_t sent, received;
    uint64_t quiet;  // cycles since anything was taken or given
    uint64_t offering;
    Random random;
    uint64_t first_accept, last_accept, first_output;
};

extern "C" {

void* dynagate_open() { return new Device; }
void dynagate_close(void* device) { delete static_cast<Device*>(device); }
void dynagate_reset(void* device) { static_cast<Device*>(device)->reset(); }
uint64_t dynagate_hash(void* device) { return static_cast<Device*>(device)->top->design_hash; }

// Streams count samples of in_words 32-bit words each, from where the stream is; returns after about so many milliseconds,
// or when all results are there, or nothing was taken or given for `idle` cycles: whether it is to be called again.
// gap, stall: chance out of 256, each cycle, that the source pauses or the sink is not ready.
int dynagate_run(void* handle, Stream* stream, const uint32_t* in, uint64_t in_words, uint32_t* out, uint64_t out_words,
                 uint64_t count, uint64_t idle, uint32_t gap, uint32_t stall, uint32_t milliseconds) {
    Device& device = *static_cast<Device*>(handle);
    Vtop& top = *device.top;
    // a model whose samples take other numbers of words gives nothing
    if (in_words != words_of(top.i__payload) || out_words != words_of(top.o__payload)) return 0;
    Stream s = *stream;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    bool goes_on = true;
    for (uint64_t cycles = 1; goes_on; ++cycles) {
        // an offer stands until it is taken: valid must not fall before the handshake
        if (!s.offering && s.sent < count && !s.random.chance(gap)) {
            put(top.i__payload, in + s.sent * in_words);
            s.offering = 1;
        }
        top.i__valid = s.offering != 0;
        top.o__ready = !s.random.chance(stall);
        device.settle();
        ++s.quiet;
        if (top.i__valid && top.i__ready) {
            if (s.sent == 0) s.first_accept = device.cycle;
            s.last_accept = device.cycle;
            s.offering = 0;
            ++s.sent;
            s.quiet = 0;
        }
        if (top.o__valid && top.o__ready) {
            get(top.o__payload, out + s.received * out_words);
            if (s.received == 0) s.first_output = device.cycle;
            ++s.received;
            s.quiet = 0;
        }
        device.tick();
        goes_on = s.received < count && s.quiet < idle;
        if (cycles % 64 == 0 && std::chrono::steady_clock::now() >= end) break;
    }
    if (!goes_on) {
        top.i__valid = 0;
        top.o__ready = 0;
        device.settle();
    }
    *stream = s;
    return goes_on;
}

// One sample alone; values[cycle * signals + k] is signal k in each cycle from its acceptance on. The signals must
// be public in the model. Returns the number of signals found: fewer than asked for means names[that] is not there.
uint64_t dynagate_probe(void* handle, const uint32_t* in, const char* const* names, uint64_t signals,
                        uint64_t cycles, uint64_t* values) {
    Device& device = *static_cast<Device*>(handle);
    Vtop& top = *device.top;
    std::vector<vpiHandle> handles;
    for (uint64_t k = 0; k < signals; ++k) {
        vpiHandle found = vpi_handle_by_name(const_cast<char*>(names[k]), nullptr);
        if (!found) return k;
        handles.push_back(found);
    }
    put(top.i__payload, in);
    top.i__valid = 1;
    top.o__ready = 1;
    device.settle();
    while (!top.i__ready) { device.tick(); device.settle(); }
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
        device.settle();
        for (uint64_t k = 0; k < signals; ++k) {
            s_vpi_value value;
            value.format = vpiVectorVal;
            vpi_get_value(handles[k], &value);
            uint64_t bits = static_cast<uint32_t>(value.value.vector[0].aval);
            if (vpi_get(vpiSize, handles[k]) > 32)
                bits |= static_cast<uint64_t>(static_cast<uint32_t>(value.value.vector[1].aval)) << 32;
            values[cycle * signals + k] = bits;
        }
        device.tick();
        top.i__valid = 0;
    }
    return signals;
}

}  // extern "C"
