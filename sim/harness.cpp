// A Verilated device as a shared library: an input stream, an output stream and registers, a cycle of the clock at a time.
// With DYNAGATE_SHELL the model is `accelerator`: AXI4-Stream and AXI4-Lite. Without, it is the bare `datapath`.
// dynagate/sim/verilate.py compiles it beside the model; dynagate/host/sim_links.py is its caller.
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

#ifdef DYNAGATE_SHELL
#define CLOCK aclk
#define IN_DATA s_axis_tdata
#define IN_VALID s_axis_tvalid
#define IN_READY s_axis_tready
#define OUT_DATA m_axis_tdata
#define OUT_VALID m_axis_tvalid
#define OUT_READY m_axis_tready
#else
#define CLOCK clk
#define IN_DATA i_data
#define IN_VALID i_valid
#define IN_READY i_ready
#define OUT_DATA o_data
#define OUT_VALID o_valid
#define OUT_READY o_ready
#endif

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
uint64_t ones(uint64_t bits) { return ~0ULL >> (64 - bits); }

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

// Both streams, as dynagate/host/sim_links.py has them. Data are rows of words, a row per beat, each with a byte: bit 0
// is its TLAST, bit 1 of the source's leaves the beat's first byte out. The source is a ring: beat k is in row
// k % capacity. The pauses follow from the random state. Cycles are counted by the device.
struct Stream {
    const uint32_t* source;
    const uint8_t* source_last;
    uint32_t* sink;
    uint8_t* sink_last;
    uint64_t capacity;
    uint64_t in_words, out_words;    // of a beat
    uint64_t in_sample, out_sample;  // beats of a sample and of its result
    uint64_t to_send, to_receive;    // beats since the streams were idle
    uint64_t sink_begin;             // the beat that goes to the first row of the sink
    uint64_t sent, received;
    uint64_t quiet;  // cycles since a beat moved
    uint64_t offering;
    Random random;
    uint64_t gap, stall;  // chance out of 256, each cycle, that the source pauses or the sink is not ready
    uint64_t first_accept, last_accept, first_output, last_output;
};

struct Access {  // of a register, over AXI4-Lite
    uint32_t write, address, value, response;
    bool address_taken, value_taken, done;
};

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    uint64_t cycle = 0;

    Device() {
        enter();
        top.reset(new Vtop(&context));
        reset();
    }
    ~Device() {
        enter();
        top->final();
        top.reset();
    }
    // Verilator looks for a model's scopes in the thread's context, which may be that of a device deleted since.
    void enter() { Verilated::threadContextp(&context); }

    void reset() {
        top->CLOCK = 0;
        top->IN_VALID = 0;
        top->OUT_READY = 0;
        hold_reset(true);
        for (int k = 0; k < 4; ++k) { settle(); tick(); }
        hold_reset(false);
        settle();
    }
    void settle() { top->eval(); }
    void tick() {
        top->CLOCK = 1;
        top->eval();
        top->CLOCK = 0;
        ++cycle;
    }
#ifdef DYNAGATE_SHELL
    void hold_reset(bool on) {
        top->aresetn = !on;
        release();
    }
    void mark(uint8_t marks) {
        top->s_axis_tlast = marks & 1;
        top->s_axis_tkeep = ones(4 * words_of(top->s_axis_tdata)) ^ (marks >> 1);
    }
    bool last() const { return top->m_axis_tlast != 0; }
    void release() {
        top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_arvalid = 0;
        top->s_axil_bready = top->s_axil_rready = 0;
    }
    void offer(const Access& access) {
        top->s_axil_awaddr = top->s_axil_araddr = access.address;
        top->s_axil_wdata = access.value;
        top->s_axil_wstrb = 15;
        top->s_axil_awvalid = access.write && !access.address_taken;
        top->s_axil_wvalid = access.write && !access.value_taken;
        top->s_axil_arvalid = !access.write && !access.address_taken;
        top->s_axil_bready = access.write != 0;
        top->s_axil_rready = access.write == 0;
    }
    void answer(Access& access) const {
        if (top->s_axil_awvalid && top->s_axil_awready) access.address_taken = true;
        if (top->s_axil_arvalid && top->s_axil_arready) access.address_taken = true;
        if (top->s_axil_wvalid && top->s_axil_wready) access.value_taken = true;
        if (top->s_axil_bvalid && top->s_axil_bready) {
            access.response = top->s_axil_bresp;
            access.done = true;
        }
        if (top->s_axil_rvalid && top->s_axil_rready) {
            access.response = top->s_axil_rresp;
            access.value = top->s_axil_rdata;
            access.done = true;
        }
    }
#else
    void hold_reset(bool on) { top->rst = on; }
    void mark(uint8_t) {}
    bool last() const { return false; }
    void release() {}
    void offer(const Access&) {}
    void answer(Access&) const {}
#endif

    // One cycle of both streams, and of the registers if one is accessed.
    void advance(Stream& s, Access* access = nullptr) {
        // an offer stands until it is taken: valid must not fall before the handshake
        if (!s.offering && s.sent < s.to_send && !s.random.chance(s.gap)) {
            put(top->IN_DATA, s.source + s.sent % s.capacity * s.in_words);
            mark(s.source_last[s.sent % s.capacity]);
            s.offering = 1;
        }
        top->IN_VALID = s.offering != 0;
        top->OUT_READY = s.received < s.to_receive && !s.random.chance(s.stall);
        if (access) offer(*access);
        settle();
        ++s.quiet;
        if (top->IN_VALID && top->IN_READY) {
            if (s.sent == 0) s.first_accept = cycle;
            if (s.sent % s.in_sample == 0) s.last_accept = cycle;
            s.offering = 0;
            ++s.sent;
            s.quiet = 0;
        }
        if (top->OUT_VALID && top->OUT_READY) {
            get(top->OUT_DATA, s.sink + (s.received - s.sink_begin) * s.out_words);
            s.sink_last[s.received - s.sink_begin] = last();
            if (s.received == 0) s.first_output = cycle;
            s.last_output = cycle;
            ++s.received;
            s.quiet = 0;
        }
        if (access) answer(*access);
        tick();
        if (access && access->done) release();
    }
};

enum { DONE, GOES_ON, IDLE };

}  // namespace

extern "C" {

void* dynagate_open() { return new Device; }
void dynagate_close(void* device) { delete static_cast<Device*>(device); }
void dynagate_reset(void* device) {
    static_cast<Device*>(device)->enter();
    static_cast<Device*>(device)->reset();
}

// 32-bit words of a beat, which a caller's rows must have.
uint64_t dynagate_in_words(void* device) { return words_of(static_cast<Device*>(device)->top->IN_DATA); }
uint64_t dynagate_out_words(void* device) { return words_of(static_cast<Device*>(device)->top->OUT_DATA); }

// Runs until to_receive beats are there, no beat moved for `idle` cycles, or about so many milliseconds are over and
// whole results are there.
int dynagate_run(void* handle, Stream* stream, uint64_t idle, uint32_t milliseconds) {
    Device& device = *static_cast<Device*>(handle);
    device.enter();
    Stream s = *stream;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    int state = DONE;
    bool late = false;
    for (uint64_t cycles = 1; state == DONE && s.received < s.to_receive; ++cycles) {
        device.advance(s);
        if (cycles % 64 == 0) late = std::chrono::steady_clock::now() >= end;
        if (s.received == s.to_receive) continue;
        if (s.quiet >= idle) state = IDLE;
        else if (late && s.received % s.out_sample == 0) state = GOES_ON;
    }
    *stream = s;
    return state;
}

#ifdef DYNAGATE_SHELL
// Reads or writes a register while the streams go on. Returns AXI's response, or -1 if there is none for `idle` cycles.
int dynagate_access(void* handle, Stream* stream, uint32_t write, uint32_t address, uint32_t* value, uint64_t idle) {
    Device& device = *static_cast<Device*>(handle);
    device.enter();
    Access access = {write, address, *value, 0, false, false, false};
    for (uint64_t cycles = 0; !access.done && cycles < idle; ++cycles) device.advance(*stream, &access);
    device.release();
    *value = access.value;
    return access.done ? static_cast<int>(access.response) : -1;
}
#else
uint64_t dynagate_hash(void* device) { return static_cast<Device*>(device)->top->design_hash; }
#endif

// One sample alone; values[cycle * signals + k] is signal k in each cycle from its acceptance on. The signals must
// be public in the model. Returns the number of signals found: fewer than asked for means names[that] is not there.
uint64_t dynagate_probe(void* handle, const uint32_t* in, const char* const* names, uint64_t signals,
                        uint64_t cycles, uint64_t* values) {
    Device& device = *static_cast<Device*>(handle);
    device.enter();
    Vtop& top = *device.top;
    std::vector<vpiHandle> handles;
    for (uint64_t k = 0; k < signals; ++k) {
        vpiHandle found = vpi_handle_by_name(const_cast<char*>(names[k]), nullptr);
        if (!found) return k;
        handles.push_back(found);
    }
    put(top.IN_DATA, in);
    top.IN_VALID = 1;
    top.OUT_READY = 1;
    device.settle();
    while (!top.IN_READY) { device.tick(); device.settle(); }
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
        top.IN_VALID = 0;
    }
    return signals;
}

}  // extern "C"
