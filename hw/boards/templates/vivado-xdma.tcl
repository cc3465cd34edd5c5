<% include "head.tcl" %>

# Block design: PCI Express, DMA engine, clock converters, accelerator
create_bd_design system
create_bd_intf_port -mode Master -vlnv xilinx.com:interface:pcie_7x_mgt_rtl:1.0 << board.interfaces.pcie >>
create_bd_intf_port -mode Slave -vlnv xilinx.com:interface:diff_clock_rtl:1.0 << board.interfaces.clock >>
set_property CONFIG.FREQ_HZ 100000000 [get_bd_intf_ports << board.interfaces.clock >>]
create_bd_port -dir I -type rst << board.interfaces.reset >>
set_property CONFIG.POLARITY ACTIVE_LOW [get_bd_ports << board.interfaces.reset >>]

create_bd_cell -type ip -vlnv xilinx.com:ip:util_ds_buf reference_clock
set_property -dict [list \
  CONFIG.C_BUF_TYPE {IBUFDSGTE} \
  CONFIG.USE_BOARD_FLOW {true} \
  CONFIG.DIFF_CLK_IN_BOARD_INTERFACE {<< board.interfaces.clock >>} \
] [get_bd_cells reference_clock]

create_bd_cell -type ip -vlnv xilinx.com:ip:xdma xdma_0
set_property -dict [list \
  CONFIG.PCIE_BOARD_INTERFACE {<< board.interfaces.pcie >>} \
  CONFIG.SYS_RST_N_BOARD_INTERFACE {<< board.interfaces.reset >>} \
  CONFIG.pl_link_cap_max_link_speed {<< "%.1f" | format(board.link.pcie.gigatransfers) >>_GT/s} \
  CONFIG.pl_link_cap_max_link_width {X<< board.link.pcie.lanes >>} \
  CONFIG.xdma_axi_intf_mm {AXI_Stream} \
  CONFIG.axi_data_width {<< board.link.width >>_bit} \
  CONFIG.axisten_freq {250} \
  CONFIG.xdma_rnum_chnl {1} \
  CONFIG.xdma_wnum_chnl {1} \
  CONFIG.axilite_master_en {true} \
  CONFIG.axilite_master_size {64} \
  CONFIG.axilite_master_scale {Kilobytes} \
  CONFIG.pciebar2axibar_axil_master {0x00000000} \
] [get_bd_cells xdma_0]

# No interrupt: the driver polls
create_bd_cell -type ip -vlnv xilinx.com:ip:xlconstant no_interrupt
set_property -dict [list CONFIG.CONST_VAL {0} CONFIG.CONST_WIDTH {1}] [get_bd_cells no_interrupt]

# The datapath's clock, and what crosses into it
create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz datapath_clock
set_property -dict [list \
  CONFIG.PRIM_SOURCE {No_buffer} \
  CONFIG.PRIM_IN_FREQ {250.000} \
  CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {<< "%.3f" | format(clock) >>} \
  CONFIG.USE_LOCKED {true} \
  CONFIG.USE_RESET {true} \
  CONFIG.RESET_TYPE {ACTIVE_LOW} \
] [get_bd_cells datapath_clock]
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset datapath_reset
create_bd_cell -type ip -vlnv xilinx.com:ip:axis_clock_converter to_datapath
create_bd_cell -type ip -vlnv xilinx.com:ip:axis_clock_converter from_datapath
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect registers
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1} CONFIG.NUM_CLKS {2}] [get_bd_cells registers]
create_bd_cell -type module -reference << module >> accelerator_0

# Streams and registers
connect_bd_intf_net [get_bd_intf_pins xdma_0/M_AXIS_H2C_0] [get_bd_intf_pins to_datapath/S_AXIS]
connect_bd_intf_net [get_bd_intf_pins to_datapath/M_AXIS] [get_bd_intf_pins accelerator_0/s_axis]
connect_bd_intf_net [get_bd_intf_pins accelerator_0/m_axis] [get_bd_intf_pins from_datapath/S_AXIS]
connect_bd_intf_net [get_bd_intf_pins from_datapath/M_AXIS] [get_bd_intf_pins xdma_0/S_AXIS_C2H_0]
connect_bd_intf_net [get_bd_intf_pins xdma_0/M_AXI_LITE] [get_bd_intf_pins registers/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins registers/M00_AXI] [get_bd_intf_pins accelerator_0/s_axil]
connect_bd_intf_net [get_bd_intf_pins xdma_0/pcie_mgt] [get_bd_intf_ports << board.interfaces.pcie >>]
connect_bd_intf_net [get_bd_intf_ports << board.interfaces.clock >>] [get_bd_intf_pins reference_clock/CLK_IN_D]

# Clocks and resets
connect_bd_net [get_bd_pins reference_clock/IBUF_OUT] [get_bd_pins xdma_0/sys_clk_gt]
connect_bd_net [get_bd_pins reference_clock/IBUF_DS_ODIV2] [get_bd_pins xdma_0/sys_clk]
connect_bd_net [get_bd_ports << board.interfaces.reset >>] [get_bd_pins xdma_0/sys_rst_n]
connect_bd_net [get_bd_pins no_interrupt/dout] [get_bd_pins xdma_0/usr_irq_req]
connect_bd_net [get_bd_pins xdma_0/axi_aclk] \
  [get_bd_pins datapath_clock/clk_in1] \
  [get_bd_pins to_datapath/s_axis_aclk] \
  [get_bd_pins from_datapath/m_axis_aclk] \
  [get_bd_pins registers/aclk]
connect_bd_net [get_bd_pins xdma_0/axi_aresetn] \
  [get_bd_pins datapath_clock/resetn] \
  [get_bd_pins datapath_reset/ext_reset_in] \
  [get_bd_pins to_datapath/s_axis_aresetn] \
  [get_bd_pins from_datapath/m_axis_aresetn] \
  [get_bd_pins registers/aresetn]
connect_bd_net [get_bd_pins datapath_clock/locked] [get_bd_pins datapath_reset/dcm_locked]
connect_bd_net [get_bd_pins datapath_clock/clk_out1] \
  [get_bd_pins datapath_reset/slowest_sync_clk] \
  [get_bd_pins to_datapath/m_axis_aclk] \
  [get_bd_pins from_datapath/s_axis_aclk] \
  [get_bd_pins registers/aclk1] \
  [get_bd_pins accelerator_0/aclk]
connect_bd_net [get_bd_pins datapath_reset/peripheral_aresetn] \
  [get_bd_pins to_datapath/m_axis_aresetn] \
  [get_bd_pins from_datapath/s_axis_aresetn] \
  [get_bd_pins accelerator_0/aresetn]

# Registers at the start of the user BAR
assign_bd_address -offset 0x00000000 -range 4K -target_address_space [get_bd_addr_spaces xdma_0/M_AXI_LITE] \
  [get_bd_addr_segs accelerator_0/s_axil/reg0] -force
<% include "finish.tcl" %>
