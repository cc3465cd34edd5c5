// Card memory to the accelerator's input stream. TLAST ends the batch.
#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>

const int WIDTH = << board.link.width >>;
typedef ap_axiu<WIDTH, 0, 0, 0> Beat;

// memory: samples, each from a beat of its own on. beats: of all samples together.
extern "C" void read_samples(const ap_uint<WIDTH>* memory, hls::stream<Beat>& stream, unsigned beats) {
#pragma HLS INTERFACE m_axi port = memory offset = slave bundle = gmem max_read_burst_length = 64 num_read_outstanding = 32
#pragma HLS INTERFACE axis port = stream
  for (unsigned i = 0; i < beats; ++i) {
#pragma HLS PIPELINE II = 1
    Beat beat;
    beat.data = memory[i];
    beat.keep = -1;
    beat.strb = -1;
    beat.last = i + 1 == beats;
    stream.write(beat);
  }
}
