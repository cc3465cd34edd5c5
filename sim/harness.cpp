// A Verilated datapath as a shared library: streams a batch through i and o and counts cycles.
// dynagate/sim/verilate.py compiles it beside the model; dynagate/host/links.py is its caller.
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

struct Statistics {
    uint64_t first_latency;  // cycles from the first sample's acceptance to its output's
    uint64_t first_accept;
    uint64_t last_accept;
    uint64_t last_output;
};

extern "C" {

void* dynagate_open() { return new Device; }
void dynagate_close(void* device) { delete static_cast<Device*>(device); }
void dynagate_reset(void* device) { static_cast<Device*>(device)->reset(); }
uint64_t dynagate_hash(void* device) { return static_cast<Device*>(device)->top->design_hash; }

// Streams count samples of in_words 32-bit words each; returns how many came back before `idle` cycles without any.
// gap, stall: chance out of 256, each cycle, that the source pauses or the sink is not ready. None come back where the
// model's samples take other numbers of words.
uint64_t dynagate_run(void* handle, const uint32_t* in, uint64_t in_words, uint32_t* out, uint64_t out_words,
                      uint64_t count, uint64_t idle, uint64_t seed, uint32_t gap, uint32_t stall,
                      Statistics* statistics) {
    Device& device = *static_cast<Device*>(handle);
    Vtop& top = *device.top;
    Random random{seed * 0x9E3779B97F4A7C15ULL + 1};
    uint64_t sent = 0, received = 0, quiet = 0;
    bool offering = false;
    std::memset(statistics, 0, sizeof *statistics);
    if (in_words != words_of(top.i__payload) || out_words != words_of(top.o__payload)) return 0;
    while (received < count && quiet < idle) {
        // an offer stands until it is taken: valid must not fall before the handshake
        if (!offering && sent < count && !random.chance(gap)) {
            put(top.i__payload, in + sent * in_words);
            offering = true;
        }
        top.i__valid = offering;
        top.o__ready = !random.chance(stall);
        device.settle();
        ++quiet;
        if (top.i__valid && top.i__ready) {
            if (sent == 0) statistics->first_accept = device.cycle;
            statistics->last_accept = device.cycle;
            offering = false;
            ++sent;
            quiet = 0;
        }
        if (top.o__valid && top.o__ready) {
            get(top.o__payload, out + received * out_words);
            if (received == 0) statistics->first_latency = device.cycle - statistics->first_accept;
            statistics->last_output = device.cycle;
            ++received;
            quiet = 0;
        }
        device.tick();
    }
    top.i__valid = 0;
    top.o__ready = 0;
    device.settle();
    return received;
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
