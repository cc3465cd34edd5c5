# << title >> for << board.title >>. The pins of PCI Express come from the board file's interfaces.
create_clock -period 10.000 -name << board.interfaces.clock >> [get_ports << board.interfaces.clock >>_clk_p]
set_false_path -from [get_ports << board.interfaces.reset >>]
