// Behavior of the Gowin blocks that Yosys has no model of, as far as dynagate's netlists use them.
// Written after Gowin UG285 (memory), UG287 (DSP) and the way in which Yosys connects the blocks.

module MULT18X18 (
    input [17:0] A, B, SIA, SIB, input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET, output [35:0] DOUT, output [17:0] SOA, SOB
);
    parameter AREG = 1'b0;
    parameter BREG = 1'b0;
    parameter OUT_REG = 1'b0;
    parameter PIPE_REG = 1'b0;
    parameter ASIGN_REG = 1'b0;
    parameter BSIGN_REG = 1'b0;
    parameter SOA_REG = 1'b0;
    initial
        if (AREG || BREG || OUT_REG || PIPE_REG || ASIGN_REG || BSIGN_REG)
            $fatal(1, "MULT18X18 with registers, which this model does not have");
    wire signed [36:0] product = $signed({ASIGN & A[17], A}) * $signed({BSIGN & B[17], B});
    assign DOUT = ASEL || BSEL ? 36'd0 : product[35:0];  // operands of a neighbor give a wrong result
endmodule

module MULT9X9 (
    input [8:0] A, B, SIA, SIB, input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET, output [17:0] DOUT, output [8:0] SOA, SOB
);
    parameter AREG = 1'b0;
    parameter BREG = 1'b0;
    parameter OUT_REG = 1'b0;
    parameter PIPE_REG = 1'b0;
    parameter ASIGN_REG = 1'b0;
    parameter BSIGN_REG = 1'b0;
    parameter SOA_REG = 1'b0;
    initial
        if (AREG || BREG || OUT_REG || PIPE_REG || ASIGN_REG || BSIGN_REG)
            $fatal(1, "MULT9X9 with registers, which this model does not have");
    wire signed [18:0] product = $signed({ASIGN & A[8], A}) * $signed({BSIGN & B[8], B});
    assign DOUT = ASEL || BSEL ? 18'd0 : product[17:0];  // operands of a neighbor give a wrong result
endmodule

module SPX9 (
    input [35:0] DI, input [2:0] BLKSEL, input [13:0] AD, input WRE, CLK, CE, OCE, RESET, output [35:0] DO
);
    `DYNAGATE_64_ROWS(INIT_RAM_, 288)
    parameter READ_MODE = 1'b0;
    parameter WRITE_MODE = 2'b00;
    parameter BIT_WIDTH = 36;
    parameter BLK_SEL = 3'b000;
    parameter RESET_MODE = "SYNC";
    initial if (READ_MODE) $fatal(1, "SPX9 with an output register, which this model does not have");
    DYNAGATE_MEMORY #(
        .WIDTH_A(BIT_WIDTH), .MODE_A(WRITE_MODE), .ROWS({`DYNAGATE_64_ROW_VALUES(INIT_RAM_)})
    ) memory (
        .CLKA(CLK), .ENA(CE && BLKSEL == BLK_SEL), .WEA(WRE), .RSTA(RESET), .ADA(AD), .DIA(DI), .DOA(DO),
        .CLKB(1'b0), .ENB(1'b0), .WEB(1'b0), .RSTB(1'b0), .ADB(14'd0), .DIB(36'd0), .DOB()
    );
endmodule

module SDPX9B (
    input [35:0] DI, input [2:0] BLKSELA, BLKSELB, input [13:0] ADA, ADB, input CLKA, CLKB, CEA, CEB, OCE,
    input RESETA, RESETB, output [35:0] DO
);
    `DYNAGATE_64_ROWS(INIT_RAM_, 288)
    parameter READ_MODE = 1'b0;
    parameter BIT_WIDTH_0 = 36;
    parameter BIT_WIDTH_1 = 36;
    parameter BLK_SEL_0 = 3'b000;
    parameter BLK_SEL_1 = 3'b000;
    parameter RESET_MODE = "SYNC";
    initial if (READ_MODE) $fatal(1, "SDPX9B with an output register, which this model does not have");
    DYNAGATE_MEMORY #(
        .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .ROWS({`DYNAGATE_64_ROW_VALUES(INIT_RAM_)})
    ) memory (
        .CLKA(CLKA), .ENA(CEA && BLKSELA == BLK_SEL_0), .WEA(1'b1), .RSTA(RESETA), .ADA(ADA), .DIA(DI), .DOA(),
        .CLKB(CLKB), .ENB(CEB && BLKSELB == BLK_SEL_1), .WEB(1'b0), .RSTB(RESETB), .ADB(ADB), .DIB(36'd0), .DOB(DO)
    );
endmodule

module DPX9B (
    input [17:0] DIA, DIB, input [2:0] BLKSELA, BLKSELB, input [13:0] ADA, ADB, input CLKA, CLKB, CEA, CEB, OCEA, OCEB,
    input WREA, WREB, RESETA, RESETB, output [17:0] DOA, DOB
);
    `DYNAGATE_64_ROWS(INIT_RAM_, 288)
    parameter READ_MODE0 = 1'b0;
    parameter READ_MODE1 = 1'b0;
    parameter WRITE_MODE0 = 2'b00;
    parameter WRITE_MODE1 = 2'b00;
    parameter BIT_WIDTH_0 = 18;
    parameter BIT_WIDTH_1 = 18;
    parameter BLK_SEL_0 = 3'b000;
    parameter BLK_SEL_1 = 3'b000;
    parameter RESET_MODE = "SYNC";
    wire [17:0] high_a, high_b;
    initial if (READ_MODE0 || READ_MODE1) $fatal(1, "DPX9B with output registers, which this model does not have");
    DYNAGATE_MEMORY #(
        .WIDTH_A(BIT_WIDTH_0), .WIDTH_B(BIT_WIDTH_1), .MODE_A(WRITE_MODE0), .MODE_B(WRITE_MODE1),
        .ROWS({`DYNAGATE_64_ROW_VALUES(INIT_RAM_)})
    ) memory (
        .CLKA(CLKA), .ENA(CEA && BLKSELA == BLK_SEL_0), .WEA(WREA), .RSTA(RESETA), .ADA(ADA), .DIA({18'd0, DIA}),
        .DOA({high_a, DOA}),
        .CLKB(CLKB), .ENB(CEB && BLKSELB == BLK_SEL_1), .WEB(WREB), .RSTB(RESETB), .ADB(ADB), .DIB({18'd0, DIB}),
        .DOB({high_b, DOB})
    );
endmodule
