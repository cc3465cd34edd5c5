// The registers of a kernel without a control protocol, by XRT's class `ip`, which pyxrt may lack.
// dynagate/host/xrt_link.py compiles and calls it. Functions return 0, or 1 and leave a message.
#include <cstdint>
#include <exception>
#include <string>

#if __has_include("xrt/xrt_ip.h")
#include "xrt/xrt_ip.h"
#else  // of XRT before it left the experimental headers
#include "xrt/experimental/xrt_ip.h"
#endif
#include "xrt/xrt_device.h"
#include "xrt/xrt_uuid.h"

namespace {

thread_local std::string message;

template <typename Call>
int caught(Call call) {
    try {
        call();
        return 0;
    } catch (const std::exception& error) {
        message = error.what();
        return 1;
    }
}

struct Registers {
    xrt::device device;
    xrt::ip ip;
};

}  // namespace

extern "C" {

const char* dynagate_ip_error() { return message.c_str(); }

void* dynagate_ip_open(unsigned card, const char* uuid, const char* name) {
    void* opened = nullptr;
    caught([&] {
        xrt::device device(card);
        xrt::ip ip(device, xrt::uuid(uuid), name);
        opened = new Registers{device, ip};
    });
    return opened;
}

void dynagate_ip_close(void* registers) { delete static_cast<Registers*>(registers); }

int dynagate_ip_read(void* registers, uint32_t address, uint32_t* value) {
    return caught([&] { *value = static_cast<Registers*>(registers)->ip.read_register(address); });
}

int dynagate_ip_write(void* registers, uint32_t address, uint32_t value) {
    return caught([&] { static_cast<Registers*>(registers)->ip.write_register(address, value); });
}

}  // extern "C"
