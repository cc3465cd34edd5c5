# << title >>: the accelerator in die SLR<< board.die >> of << board.dies >>.
# Registers of `crossings` on both sides of each wire between dies use the flip-flops at the die's edge.
create_pblock pblock_accelerator
resize_pblock [get_pblocks pblock_accelerator] -add {SLR<< board.die >>}
add_cells_to_pblock [get_pblocks pblock_accelerator] [get_cells -hierarchical -filter {NAME =~ *shell && REF_NAME == accelerator}]
add_cells_to_pblock [get_pblocks pblock_accelerator] [get_cells -hierarchical -filter {NAME =~ *u_crossings/u_shell}]
<% for name in ("launch", "arrival", "room", "credit") %>
set_property USER_SLL_REG TRUE [get_cells -hierarchical -filter {NAME =~ *u_crossings/*/<< name >>_reg*}]
<% endfor %>
