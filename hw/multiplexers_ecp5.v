// Multiplexers of 4, 8 and 16 ways in ECP5's slices. Tables of two ways each meet in multiplexers of the slices
// themselves, over wires of a tile's own, so one wire of the fabric lies between a register and the result.

module \$_MUX4_ (input A, B, C, D, S, T, output Y);
    wire low, high;
    LUT4 #(.INIT(16'hCACA)) ways_0 (.A(A), .B(B), .C(S), .D(1'b0), .Z(low));
    LUT4 #(.INIT(16'hCACA)) ways_2 (.A(C), .B(D), .C(S), .D(1'b0), .Z(high));
    PFUMX both (.BLUT(low), .ALUT(high), .C0(T), .Z(Y));
endmodule

module \$_MUX8_ (input A, B, C, D, E, F, G, H, S, T, U, output Y);
    wire low, high;
    \$_MUX4_ ways_0 (.A(A), .B(B), .C(C), .D(D), .S(S), .T(T), .Y(low));
    \$_MUX4_ ways_4 (.A(E), .B(F), .C(G), .D(H), .S(S), .T(T), .Y(high));
    L6MUX21 both (.D0(low), .D1(high), .SD(U), .Z(Y));
endmodule

module \$_MUX16_ (input A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, S, T, U, V, output Y);
    wire low, high;
    \$_MUX8_ ways_0 (.A(A), .B(B), .C(C), .D(D), .E(E), .F(F), .G(G), .H(H), .S(S), .T(T), .U(U), .Y(low));
    \$_MUX8_ ways_8 (.A(I), .B(J), .C(K), .D(L), .E(M), .F(N), .G(O), .H(P), .S(S), .T(T), .U(U), .Y(high));
    L6MUX21 both (.D0(low), .D1(high), .SD(V), .Z(Y));
endmodule
