// Memory blocks of FPGAs, as far as dynagate's netlists use them: one clock, words of whole bytes, no resets.

// Sixteen parameters of a block's first content, and their concatenation.
`define DYNAGATE_ROWS(name, bits) \
    parameter [bits-1:0] name``0 = 0; \
    parameter [bits-1:0] name``1 = 0; \
    parameter [bits-1:0] name``2 = 0; \
    parameter [bits-1:0] name``3 = 0; \
    parameter [bits-1:0] name``4 = 0; \
    parameter [bits-1:0] name``5 = 0; \
    parameter [bits-1:0] name``6 = 0; \
    parameter [bits-1:0] name``7 = 0; \
    parameter [bits-1:0] name``8 = 0; \
    parameter [bits-1:0] name``9 = 0; \
    parameter [bits-1:0] name``A = 0; \
    parameter [bits-1:0] name``B = 0; \
    parameter [bits-1:0] name``C = 0; \
    parameter [bits-1:0] name``D = 0; \
    parameter [bits-1:0] name``E = 0; \
    parameter [bits-1:0] name``F = 0;
`define DYNAGATE_ROW_VALUES(name) \
    name``F, name``E, name``D, name``C, name``B, name``A, name``9, name``8, name``7, name``6, name``5, name``4, name``3, name``2, name``1, name``0
`define DYNAGATE_64_ROWS(name, bits) \
    `DYNAGATE_ROWS(name``0, bits) `DYNAGATE_ROWS(name``1, bits) `DYNAGATE_ROWS(name``2, bits) `DYNAGATE_ROWS(name``3, bits)
`define DYNAGATE_64_ROW_VALUES(name) \
    `DYNAGATE_ROW_VALUES(name``3), `DYNAGATE_ROW_VALUES(name``2), `DYNAGATE_ROW_VALUES(name``1), `DYNAGATE_ROW_VALUES(name``0)

// A memory with two ports and bytes of nine bits. Words are one, two or four bytes. The address counts bits of eight to a
// byte; where a word has two or four bytes, the low bits of a writing address enable them. HEX: the rows of the first
// content are text, "0x" and 80 digits, with ten bits for each byte. MODE: what a port that writes reads meanwhile:
// 0 its last word, 1 the new word, 2 the old one.
module DYNAGATE_MEMORY #(
    parameter integer WIDTH_A = 36, WIDTH_B = 36, MODE_A = 0, MODE_B = 0, HEX = 0, ROW = 288,
    parameter [64*ROW-1:0] ROWS = 0
) (
    input CLKA, ENA, WEA, RSTA, input [13:0] ADA, input [35:0] DIA, output [35:0] DOA,
    input CLKB, ENB, WEB, RSTB, input [13:0] ADB, input [35:0] DIB, output [35:0] DOB
);
    reg [8:0] store [0:2047];
    reg [35:0] a = 0, b = 0;
    assign DOA = a, DOB = b;

    function [3:0] digit(input [7:0] letter);
        digit = letter <= "9" ? letter[3:0] : letter[3:0] + 4'd9;
    endfunction

    integer k, j, place;
    reg [3:0] nibble;
    initial begin
        if ((WIDTH_A != 9 && WIDTH_A != 18 && WIDTH_A != 36) || (WIDTH_B != 9 && WIDTH_B != 18 && WIDTH_B != 36))
            $fatal(1, "a memory of words that this model does not have");
        for (k = 0; k < 2048; k = k + 1)
            if (HEX != 0)
                for (j = 0; j < 9; j = j + 1) begin
                    place = (k % 32) * 10 + j;
                    nibble = digit(ROWS[(k / 32) * ROW + (place / 4) * 8 +: 8]);
                    store[k][j] = nibble[place % 4];
                end
            else
                store[k] = ROWS[(k / 32) * ROW + (k % 32) * 9 +: 9];
    end

    function [10:0] first(input integer width, input [13:0] address);
        case (width)
            36: first = {address[13:5], 2'd0};
            18: first = {address[13:4], 1'd0};
            default: first = address[13:3];
        endcase
    endfunction

    integer i;
    always @(posedge CLKA)
        if (ENA) begin
            if (RSTA) $fatal(1, "a memory is reset, which this model does not have");
            for (i = 0; i < WIDTH_A / 9; i = i + 1) begin
                if (WEA && (WIDTH_A == 9 || ADA[i])) store[first(WIDTH_A, ADA) + i[10:0]] <= DIA[9 * i +: 9];
                if (!WEA || MODE_A == 2) a[9 * i +: 9] <= store[first(WIDTH_A, ADA) + i[10:0]];
                else if (MODE_A == 1)
                    a[9 * i +: 9] <= WIDTH_A == 9 || ADA[i] ? DIA[9 * i +: 9] : store[first(WIDTH_A, ADA) + i[10:0]];
            end
        end
    integer n;
    always @(posedge CLKB)
        if (ENB) begin
            if (RSTB) $fatal(1, "a memory is reset, which this model does not have");
            for (n = 0; n < WIDTH_B / 9; n = n + 1) begin
                if (WEB && (WIDTH_B == 9 || ADB[n])) store[first(WIDTH_B, ADB) + n[10:0]] <= DIB[9 * n +: 9];
                if (!WEB || MODE_B == 2) b[9 * n +: 9] <= store[first(WIDTH_B, ADB) + n[10:0]];
                else if (MODE_B == 1)
                    b[9 * n +: 9] <= WIDTH_B == 9 || ADB[n] ? DIB[9 * n +: 9] : store[first(WIDTH_B, ADB) + n[10:0]];
            end
        end
endmodule
