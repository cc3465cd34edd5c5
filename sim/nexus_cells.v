// Behavior of the memory blocks of Lattice Nexus, of which Yosys has no model, as far as dynagate's netlists use them.
// Written after Lattice FPGA-TN-02094 (memory) and the way in which Yosys connects the blocks.

`define DYNAGATE_NEXUS_MEMORY \
    `DYNAGATE_64_ROWS(INITVAL_, 656) \
    parameter GSR = "ENABLED"; \
    function integer width(input [31:0] text); \
        case (text) \
            "X9": width = 9; \
            "X18": width = 18; \
            "X36": width = 36; \
            default: width = 0; \
        endcase \
    endfunction

module PDPSC16K (
    input [35:0] DI, input [13:0] ADW, ADR, input CLK, CER, CEW, input [2:0] CSW, CSR, input RST,
    output [35:0] DO, output ONEBITERR, TWOBITERR
);
    `DYNAGATE_NEXUS_MEMORY
    parameter DATA_WIDTH_W = "X36";
    parameter DATA_WIDTH_R = "X36";
    parameter OUTREG = "BYPASSED";
    parameter RESETMODE = "SYNC";
    parameter ASYNC_RST_RELEASE = "SYNC";
    parameter ECC = "DISABLED";
    parameter CSDECODE_W = "000";
    parameter CSDECODE_R = "000";
    initial
        if (OUTREG != "BYPASSED" || ECC != "DISABLED") $fatal(1, "PDPSC16K in another mode than this model has");
    DYNAGATE_MEMORY #(
        .WIDTH_A(width(DATA_WIDTH_W)), .WIDTH_B(width(DATA_WIDTH_R)), .HEX(1), .ROW(656),
        .ROWS({`DYNAGATE_64_ROW_VALUES(INITVAL_)})
    ) memory (
        .CLKA(CLK), .ENA(CEW && CSW == 3'b111), .WEA(1'b1), .RSTA(1'b0), .ADA(ADW), .DIA(DI), .DOA(),
        .CLKB(CLK), .ENB(CER && CSR == 3'b111), .WEB(1'b0), .RSTB(RST), .ADB(ADR), .DIB(36'd0), .DOB(DO)
    );
endmodule

module DP16K (
    input [17:0] DIA, DIB, input [13:0] ADA, ADB, input CLKA, CLKB, CEA, CEB, WEA, WEB, input [2:0] CSA, CSB,
    input RSTA, RSTB, output [17:0] DOA, DOB
);
    `DYNAGATE_NEXUS_MEMORY
    parameter DATA_WIDTH_A = "X18";
    parameter DATA_WIDTH_B = "X18";
    parameter OUTREG_A = "BYPASSED";
    parameter OUTREG_B = "BYPASSED";
    parameter RESETMODE_A = "SYNC";
    parameter RESETMODE_B = "SYNC";
    parameter ASYNC_RST_RELEASE_A = "SYNC";
    parameter ASYNC_RST_RELEASE_B = "SYNC";
    parameter CSDECODE_A = "000";
    parameter CSDECODE_B = "000";
    wire [17:0] high_a, high_b;
    initial
        if (OUTREG_A != "BYPASSED" || OUTREG_B != "BYPASSED") $fatal(1, "DP16K in another mode than this model has");
    DYNAGATE_MEMORY #(
        .WIDTH_A(width(DATA_WIDTH_A)), .WIDTH_B(width(DATA_WIDTH_B)), .HEX(1), .ROW(656),
        .ROWS({`DYNAGATE_64_ROW_VALUES(INITVAL_)})
    ) memory (
        .CLKA(CLKA), .ENA(CEA && CSA == 3'b111), .WEA(WEA), .RSTA(RSTA), .ADA(ADA), .DIA({18'd0, DIA}),
        .DOA({high_a, DOA}),
        .CLKB(CLKB), .ENB(CEB && CSB == 3'b111), .WEB(WEB), .RSTB(RSTB), .ADB(ADB), .DIB({18'd0, DIB}),
        .DOB({high_b, DOB})
    );
endmodule
