<% include "head.tcl" %>

# Block design: processor, DMA engine, accelerator, all at the datapath's clock
create_bd_design system
create_bd_cell -type ip -vlnv << processor.vlnv >> << processor.cell >>
apply_bd_automation -rule << processor.rule >> \
  -config {<< processor.automation >>} [get_bd_cells << processor.cell >>]
set_property -dict [list \
<% for name, value in processor.configuration.items() %>
  CONFIG.<< name >> {<< value >>} \
<% endfor %>
] [get_bd_cells << processor.cell >>]

create_bd_cell -type ip -vlnv xilinx.com:ip:axi_dma axi_dma_0
set_property -dict [list \
  CONFIG.c_include_sg {0} \
  CONFIG.c_sg_include_stscntrl_strm {0} \
  CONFIG.c_sg_length_width {26} \
  CONFIG.c_addr_width {<< processor.address_bits >>} \
  CONFIG.c_include_mm2s_dre {0} \
  CONFIG.c_include_s2mm_dre {0} \
  CONFIG.c_m_axi_mm2s_data_width {<< board.link.width >>} \
  CONFIG.c_m_axis_mm2s_tdata_width {<< board.link.width >>} \
  CONFIG.c_m_axi_s2mm_data_width {<< board.link.width >>} \
  CONFIG.c_s_axis_s2mm_tdata_width {<< board.link.width >>} \
  CONFIG.c_mm2s_burst_size {64} \
  CONFIG.c_s2mm_burst_size {64} \
] [get_bd_cells axi_dma_0]
create_bd_cell -type module -reference << module >> accelerator_0
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset datapath_reset
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect registers
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {2} CONFIG.NUM_CLKS {1}] [get_bd_cells registers]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory
set_property -dict [list CONFIG.NUM_SI {2} CONFIG.NUM_MI {1} CONFIG.NUM_CLKS {1}] [get_bd_cells memory]

# Streams, registers, memory
connect_bd_intf_net [get_bd_intf_pins axi_dma_0/M_AXIS_MM2S] [get_bd_intf_pins accelerator_0/s_axis]
connect_bd_intf_net [get_bd_intf_pins accelerator_0/m_axis] [get_bd_intf_pins axi_dma_0/S_AXIS_S2MM]
connect_bd_intf_net [get_bd_intf_pins << processor.cell >>/<< processor.master >>] [get_bd_intf_pins registers/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins registers/M00_AXI] [get_bd_intf_pins axi_dma_0/S_AXI_LITE]
connect_bd_intf_net [get_bd_intf_pins registers/M01_AXI] [get_bd_intf_pins accelerator_0/s_axil]
connect_bd_intf_net [get_bd_intf_pins axi_dma_0/M_AXI_MM2S] [get_bd_intf_pins memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins axi_dma_0/M_AXI_S2MM] [get_bd_intf_pins memory/S01_AXI]
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins << processor.cell >>/<< processor.memory >>]

# Clock and reset
connect_bd_net [get_bd_pins << processor.cell >>/<< processor.clock >>] \
<% for pin in processor.clock_inputs %>
  [get_bd_pins << processor.cell >>/<< pin >>] \
<% endfor %>
  [get_bd_pins axi_dma_0/s_axi_lite_aclk] \
  [get_bd_pins axi_dma_0/m_axi_mm2s_aclk] \
  [get_bd_pins axi_dma_0/m_axi_s2mm_aclk] \
  [get_bd_pins registers/aclk] \
  [get_bd_pins memory/aclk] \
  [get_bd_pins datapath_reset/slowest_sync_clk] \
  [get_bd_pins accelerator_0/aclk]
connect_bd_net [get_bd_pins << processor.cell >>/<< processor.reset >>] [get_bd_pins datapath_reset/ext_reset_in]
connect_bd_net [get_bd_pins datapath_reset/peripheral_aresetn] \
  [get_bd_pins axi_dma_0/axi_resetn] \
  [get_bd_pins registers/aresetn] \
  [get_bd_pins memory/aresetn] \
  [get_bd_pins accelerator_0/aresetn]

# Address map of the processor, and the rest by Vivado: the memory, as the DMA engine sees it
assign_bd_address -offset << "0x%08X" | format(board.addresses.axi_dma_0) >> -range 64K \
  -target_address_space [get_bd_addr_spaces << processor.cell >>/Data] [get_bd_addr_segs axi_dma_0/S_AXI_LITE/Reg] -force
assign_bd_address -offset << "0x%08X" | format(board.addresses.accelerator_0) >> -range 4K \
  -target_address_space [get_bd_addr_spaces << processor.cell >>/Data] [get_bd_addr_segs accelerator_0/s_axil/reg0] -force
assign_bd_address
<% include "finish.tcl" %>
file copy -force [file join $here vivado accelerator.gen sources_1 bd system hw_handoff system.hwh] [file join $here accelerator.hwh]
