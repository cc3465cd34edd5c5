// A Verilated device with a serial line as a shared library: bytes go in and come out bit by bit at its two pins.
// dynagate/sim/verilate.py compiles it with the pins' names; dynagate/sim/line.py is its caller.
#include <cstdint>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

namespace {

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    uint64_t clocks;  // of a bit

    // the byte on its way to the device: bits left with start and stop, and clocks left of the present bit
    uint32_t sending = 0, send_bits = 0;
    uint64_t send_wait = 0;
    // the byte on its way from it
    uint32_t receiving = 0, receive_bits = 0;
    uint64_t receive_wait = 0;

    explicit Device(uint64_t clocks) : clocks(clocks) {
        Verilated::threadContextp(&context);
        top.reset(new Vtop(&context));
        top->PIN_CLOCK = 0;
        top->PIN_RX = 1;
        top->eval();
    }
    ~Device() {
        Verilated::threadContextp(&context);
        top->final();
        top.reset();
    }
    void tick() {
        top->PIN_CLOCK = 1;
        top->eval();
        top->PIN_CLOCK = 0;
        top->eval();
    }
};

}  // namespace

extern "C" {

void* dynagate_open(uint64_t clocks) { return new Device(clocks); }
void dynagate_close(void* device) { delete static_cast<Device*>(device); }

// Runs so many clocks. Bytes of `in` go to the device back to back; *taken says how many have begun. Those that come
// from it go to `out`, which has room for one in ten bits. A byte without a stop bit is not one. Returns their number.
uint64_t dynagate_line(void* handle, const uint8_t* in, uint64_t count, uint64_t* taken, uint8_t* out, uint64_t cycles) {
    Device& d = *static_cast<Device*>(handle);
    Verilated::threadContextp(&d.context);
    uint64_t sent = 0, received = 0;
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
        if (d.send_wait == 0) {
            if (d.send_bits == 0 && sent < count) {
                d.sending = (1u << 9) | (static_cast<uint32_t>(in[sent++]) << 1);
                d.send_bits = 10;
            }
            if (d.send_bits != 0) {
                d.top->PIN_RX = d.sending & 1;
                d.sending >>= 1;
                --d.send_bits;
                d.send_wait = d.clocks;
            }
        }
        if (d.send_wait != 0) --d.send_wait;
        d.tick();
        if (d.receive_bits == 0) {
            if (!d.top->PIN_TX) {
                d.receive_bits = 10;
                d.receive_wait = d.clocks / 2;
                d.receiving = 0;
            }
        } else if (--d.receive_wait == 0) {
            d.receiving |= static_cast<uint32_t>(d.top->PIN_TX & 1) << (10 - d.receive_bits);
            d.receive_wait = d.clocks;
            if (--d.receive_bits == 0 && (d.receiving & 0x201) == 0x200) out[received++] = (d.receiving >> 1) & 0xFF;
        }
    }
    *taken = sent;
    return received;
}

}  // extern "C"
