// The accelerator's output stream to card memory.
#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>

const int WIDTH = << board.link.width >>;
typedef ap_axiu<WIDTH, 0, 0, 0> Beat;

// memory: results, each from a beat of its own on. beats: of all results together.
extern "C" void write_results(ap_uint<WIDTH>* memory, hls::stream<Beat>& stream, unsigned beats) {
#pragma HLS INTERFACE m_axi port = memory offset = slave bundle = gmem max_write_burst_length = 64 num_write_outstanding = 32
#pragma HLS INTERFACE axis port = stream
  for (unsigned i = 0; i < beats; ++i) {
#pragma HLS PIPELINE II = 1
    memory[i] = stream.read().data;
  }
}
