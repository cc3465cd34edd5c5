// Behavior of the AMD blocks that Yosys has no model of, as far as dynagate's netlists use them: 7-series, UltraScale+.
// Written after UG473, UG573 (memory), UG579 (DSP48E2) and the way in which Yosys connects the blocks.

// The product alone: Yosys packs no registers into the DSP48E2.
module DSP48E2 (
    input [29:0] A, ACIN, input [17:0] B, BCIN, input [47:0] C, PCIN, input [26:0] D, input [3:0] ALUMODE, input [4:0] INMODE,
    input [8:0] OPMODE, input [2:0] CARRYINSEL, input CARRYIN, CLK, output [47:0] P
);
    parameter integer ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1, CARRYINREG = 1;
    parameter integer CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1, MREG = 1, OPMODEREG = 1, PREG = 1;
    parameter AMULTSEL = "A";
    parameter BMULTSEL = "B";
    parameter A_INPUT = "DIRECT";
    parameter B_INPUT = "DIRECT";
    parameter USE_MULT = "MULTIPLY";
    parameter USE_SIMD = "ONE48";
    initial
        if (ADREG != 0 || AREG != 0 || BREG != 0 || MREG != 0 || PREG != 0 || INMODEREG != 0 || OPMODEREG != 0
            || ALUMODEREG != 0 || AMULTSEL != "A" || BMULTSEL != "B" || USE_SIMD != "ONE48")
            $fatal(1, "DSP48E2 in another mode than this model has");
    wire signed [44:0] product = $signed(A[26:0]) * $signed(B);
    wire multiplies = OPMODE == 9'b000000101 && ALUMODE == 0 && INMODE == 0;
    assign P = multiplies ? {{3{product[44]}}, product} : 48'd0;  // another operation gives a wrong result
endmodule

// Bytes with a bit of parity each. A word has 8, 16, 32 or 64 bits, and the address counts bits.
module DYNAGATE_XILINX_MEMORY #(
    parameter integer BYTES = 2048, READ_A = 0, READ_B = 0, WRITE_A = 0, WRITE_B = 0,
    parameter MODE_A = "WRITE_FIRST", MODE_B = "WRITE_FIRST",
    parameter [8*BYTES-1:0] INIT = 0, parameter [4095:0] PARITY = 0
) (
    input CLKA, ENA, RSTA, input [15:0] ADA, input [7:0] WEA, PIA, input [63:0] DIA, output reg [63:0] DOA, output reg [7:0] POA,
    input CLKB, ENB, RSTB, input [15:0] ADB, input [7:0] WEB, PIB, input [63:0] DIB, output reg [63:0] DOB, output reg [7:0] POB
);
    reg [8:0] store [0:BYTES-1];
    integer k;

    function known(input integer width);
        known = width == 0 || width == 9 || width == 18 || width == 36 || width == 72;
    endfunction

    initial begin
        if (!known(READ_A) || !known(READ_B) || !known(WRITE_A) || !known(WRITE_B))
            $fatal(1, "a memory of words that this model does not have");
        if ((READ_A != 0 && WRITE_A != 0 && MODE_A == "WRITE_FIRST") || (READ_B != 0 && WRITE_B != 0 && MODE_B == "WRITE_FIRST"))
            $fatal(1, "a memory that reads what it writes, which this model does not have");
        for (k = 0; k < BYTES; k = k + 1) store[k] = {PARITY[k], INIT[8*k +: 8]};
        DOA = 0; POA = 0; DOB = 0; POB = 0;
    end

    function [31:0] at(input integer width, i, input [15:0] address);
        at = ({16'd0, address} >> 3) / (width / 9) * (width / 9) + i;
    endfunction

    integer i, n;
    always @(posedge CLKA)
        if (ENA) begin
            if (RSTA) $fatal(1, "a memory is reset, which this model does not have");
            for (i = 0; i < WRITE_A / 9; i = i + 1)
                if (WEA[i]) store[at(WRITE_A, i, ADA)] <= {PIA[i], DIA[8*i +: 8]};
            if (MODE_A == "READ_FIRST" || WRITE_A == 0 || WEA == 0)
                for (i = 0; i < READ_A / 9; i = i + 1) {POA[i], DOA[8*i +: 8]} <= store[at(READ_A, i, ADA)];
        end
    always @(posedge CLKB)
        if (ENB) begin
            if (RSTB) $fatal(1, "a memory is reset, which this model does not have");
            for (n = 0; n < WRITE_B / 9; n = n + 1)
                if (WEB[n]) store[at(WRITE_B, n, ADB)] <= {PIB[n], DIB[8*n +: 8]};
            if (MODE_B == "READ_FIRST" || WRITE_B == 0 || WEB == 0)
                for (n = 0; n < READ_B / 9; n = n + 1) {POB[n], DOB[8*n +: 8]} <= store[at(READ_B, n, ADB)];
        end
endmodule

`define DYNAGATE_XILINX_PARAMETERS \
    parameter integer READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0, DOA_REG = 0, DOB_REG = 0; \
    parameter WRITE_MODE_A = "WRITE_FIRST"; \
    parameter WRITE_MODE_B = "WRITE_FIRST"; \
    parameter INIT_A = 0; \
    parameter INIT_B = 0; \
    parameter SRVAL_A = 0; \
    parameter SRVAL_B = 0; \
    initial if (DOA_REG != 0 || DOB_REG != 0) $fatal(1, "a memory with output registers, which this model does not have");

module RAMB18E1 (
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB,
    input [13:0] ADDRARDADDR, ADDRBWRADDR, input [15:0] DIADI, DIBDI, input [1:0] DIPADIP, DIPBDIP,
    input [1:0] WEA, input [3:0] WEBWE, output [15:0] DOADO, DOBDO, output [1:0] DOPADOP, DOPBDOP
);
    `DYNAGATE_64_ROWS(INIT_, 256)
    `DYNAGATE_ROWS(INITP_0, 256)
    `DYNAGATE_XILINX_PARAMETERS
    parameter RAM_MODE = "TDP";
    wire [63:0] a, b;
    wire [7:0] pa, pb;
    DYNAGATE_XILINX_MEMORY #(
        .BYTES(2048), .READ_A(READ_WIDTH_A), .READ_B(READ_WIDTH_B), .WRITE_A(WRITE_WIDTH_A), .WRITE_B(WRITE_WIDTH_B),
        .MODE_A(WRITE_MODE_A), .MODE_B(WRITE_MODE_B),
        .INIT({`DYNAGATE_64_ROW_VALUES(INIT_)}), .PARITY({`DYNAGATE_ROW_VALUES(INITP_0)})
    ) memory (
        .CLKA(CLKARDCLK), .ENA(ENARDEN), .RSTA(RSTRAMARSTRAM), .ADA({2'd0, ADDRARDADDR[13:0]}), .WEA({6'd0, WEA}),
        .DIA({48'd0, DIADI}), .PIA({6'd0, DIPADIP}), .DOA(a), .POA(pa),
        .CLKB(CLKBWRCLK), .ENB(ENBWREN), .RSTB(RSTRAMB), .ADB({2'd0, ADDRBWRADDR[13:0]}), .WEB({4'd0, WEBWE}),
        .DIB(WRITE_WIDTH_B == 36 ? {32'd0, DIBDI, DIADI} : {48'd0, DIBDI}),
        .PIB(WRITE_WIDTH_B == 36 ? {4'd0, DIPBDIP, DIPADIP} : {6'd0, DIPBDIP}), .DOB(b), .POB(pb)
    );
    assign DOADO = a[15:0], DOPADOP = pa[1:0];
    assign DOBDO = READ_WIDTH_A == 36 ? a[31:16] : b[15:0];
    assign DOPBDOP = READ_WIDTH_A == 36 ? pa[3:2] : pb[1:0];
endmodule

module RAMB36E1 (
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB,
    input [15:0] ADDRARDADDR, ADDRBWRADDR, input [31:0] DIADI, DIBDI, input [3:0] DIPADIP, DIPBDIP,
    input [3:0] WEA, input [7:0] WEBWE, output [31:0] DOADO, DOBDO, output [3:0] DOPADOP, DOPBDOP
);
    `DYNAGATE_64_ROWS(INIT_, 256)
    `DYNAGATE_ROWS(INIT_4, 256) `DYNAGATE_ROWS(INIT_5, 256) `DYNAGATE_ROWS(INIT_6, 256) `DYNAGATE_ROWS(INIT_7, 256)
    `DYNAGATE_ROWS(INITP_0, 256)
    `DYNAGATE_XILINX_PARAMETERS
    parameter RAM_MODE = "TDP";
    wire [63:0] a, b;
    wire [7:0] pa, pb;
    DYNAGATE_XILINX_MEMORY #(
        .BYTES(4096), .READ_A(READ_WIDTH_A), .READ_B(READ_WIDTH_B), .WRITE_A(WRITE_WIDTH_A), .WRITE_B(WRITE_WIDTH_B),
        .MODE_A(WRITE_MODE_A), .MODE_B(WRITE_MODE_B),
        .INIT({`DYNAGATE_ROW_VALUES(INIT_7), `DYNAGATE_ROW_VALUES(INIT_6), `DYNAGATE_ROW_VALUES(INIT_5), `DYNAGATE_ROW_VALUES(INIT_4),
            `DYNAGATE_64_ROW_VALUES(INIT_)}), .PARITY({`DYNAGATE_ROW_VALUES(INITP_0)})
    ) memory (
        .CLKA(CLKARDCLK), .ENA(ENARDEN), .RSTA(RSTRAMARSTRAM), .ADA({1'd0, ADDRARDADDR[14:0]}), .WEA({4'd0, WEA}),
        .DIA({32'd0, DIADI}), .PIA({4'd0, DIPADIP}), .DOA(a), .POA(pa),
        .CLKB(CLKBWRCLK), .ENB(ENBWREN), .RSTB(RSTRAMB), .ADB({1'd0, ADDRBWRADDR[14:0]}), .WEB({WEBWE}),
        .DIB(WRITE_WIDTH_B == 72 ? {DIBDI, DIADI} : {32'd0, DIBDI}),
        .PIB(WRITE_WIDTH_B == 72 ? {DIPBDIP, DIPADIP} : {4'd0, DIPBDIP}), .DOB(b), .POB(pb)
    );
    assign DOADO = a[31:0], DOPADOP = pa[3:0];
    assign DOBDO = READ_WIDTH_A == 72 ? a[63:32] : b[31:0];
    assign DOPBDOP = READ_WIDTH_A == 72 ? pa[7:4] : pb[3:0];
endmodule

module RAMB18E2 (
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB, ADDRENA, ADDRENB, SLEEP,
    input [13:0] ADDRARDADDR, ADDRBWRADDR, input [15:0] DINADIN, DINBDIN, input [1:0] DINPADINP, DINPBDINP,
    input [1:0] WEA, input [3:0] WEBWE, output [15:0] DOUTADOUT, DOUTBDOUT, output [1:0] DOUTPADOUTP, DOUTPBDOUTP
);
    `DYNAGATE_64_ROWS(INIT_, 256)
    `DYNAGATE_ROWS(INITP_0, 256)
    `DYNAGATE_XILINX_PARAMETERS
    wire [63:0] a, b;
    wire [7:0] pa, pb;
    DYNAGATE_XILINX_MEMORY #(
        .BYTES(2048), .READ_A(READ_WIDTH_A), .READ_B(READ_WIDTH_B), .WRITE_A(WRITE_WIDTH_A), .WRITE_B(WRITE_WIDTH_B),
        .MODE_A(WRITE_MODE_A), .MODE_B(WRITE_MODE_B),
        .INIT({`DYNAGATE_64_ROW_VALUES(INIT_)}), .PARITY({`DYNAGATE_ROW_VALUES(INITP_0)})
    ) memory (
        .CLKA(CLKARDCLK), .ENA(ENARDEN), .RSTA(RSTRAMARSTRAM), .ADA({2'd0, ADDRARDADDR[13:0]}), .WEA({6'd0, WEA}),
        .DIA({48'd0, DINADIN}), .PIA({6'd0, DINPADINP}), .DOA(a), .POA(pa),
        .CLKB(CLKBWRCLK), .ENB(ENBWREN), .RSTB(RSTRAMB), .ADB({2'd0, ADDRBWRADDR[13:0]}), .WEB({4'd0, WEBWE}),
        .DIB(WRITE_WIDTH_B == 36 ? {32'd0, DINBDIN, DINADIN} : {48'd0, DINBDIN}),
        .PIB(WRITE_WIDTH_B == 36 ? {4'd0, DINPBDINP, DINPADINP} : {6'd0, DINPBDINP}), .DOB(b), .POB(pb)
    );
    assign DOUTADOUT = a[15:0], DOUTPADOUTP = pa[1:0];
    assign DOUTBDOUT = READ_WIDTH_A == 36 ? a[31:16] : b[15:0];
    assign DOUTPBDOUTP = READ_WIDTH_A == 36 ? pa[3:2] : pb[1:0];
endmodule

module RAMB36E2 (
    input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB, ADDRENA, ADDRENB, SLEEP,
    input [14:0] ADDRARDADDR, ADDRBWRADDR, input [31:0] DINADIN, DINBDIN, input [3:0] DINPADINP, DINPBDINP,
    input [3:0] WEA, input [7:0] WEBWE, output [31:0] DOUTADOUT, DOUTBDOUT, output [3:0] DOUTPADOUTP, DOUTPBDOUTP
);
    `DYNAGATE_64_ROWS(INIT_, 256)
    `DYNAGATE_ROWS(INIT_4, 256) `DYNAGATE_ROWS(INIT_5, 256) `DYNAGATE_ROWS(INIT_6, 256) `DYNAGATE_ROWS(INIT_7, 256)
    `DYNAGATE_ROWS(INITP_0, 256)
    `DYNAGATE_XILINX_PARAMETERS
    wire [63:0] a, b;
    wire [7:0] pa, pb;
    DYNAGATE_XILINX_MEMORY #(
        .BYTES(4096), .READ_A(READ_WIDTH_A), .READ_B(READ_WIDTH_B), .WRITE_A(WRITE_WIDTH_A), .WRITE_B(WRITE_WIDTH_B),
        .MODE_A(WRITE_MODE_A), .MODE_B(WRITE_MODE_B),
        .INIT({`DYNAGATE_ROW_VALUES(INIT_7), `DYNAGATE_ROW_VALUES(INIT_6), `DYNAGATE_ROW_VALUES(INIT_5), `DYNAGATE_ROW_VALUES(INIT_4),
            `DYNAGATE_64_ROW_VALUES(INIT_)}), .PARITY({`DYNAGATE_ROW_VALUES(INITP_0)})
    ) memory (
        .CLKA(CLKARDCLK), .ENA(ENARDEN), .RSTA(RSTRAMARSTRAM), .ADA({1'd0, ADDRARDADDR[14:0]}), .WEA({4'd0, WEA}),
        .DIA({32'd0, DINADIN}), .PIA({4'd0, DINPADINP}), .DOA(a), .POA(pa),
        .CLKB(CLKBWRCLK), .ENB(ENBWREN), .RSTB(RSTRAMB), .ADB({1'd0, ADDRBWRADDR[14:0]}), .WEB({WEBWE}),
        .DIB(WRITE_WIDTH_B == 72 ? {DINBDIN, DINADIN} : {32'd0, DINBDIN}),
        .PIB(WRITE_WIDTH_B == 72 ? {DINPBDINP, DINPADINP} : {4'd0, DINPBDINP}), .DOB(b), .POB(pb)
    );
    assign DOUTADOUT = a[31:0], DOUTPADOUTP = pa[3:0];
    assign DOUTBDOUT = READ_WIDTH_A == 72 ? a[63:32] : b[31:0];
    assign DOUTPBDOUTP = READ_WIDTH_A == 72 ? pa[7:4] : pb[3:0];
endmodule
