# << title >> for << board.title >>: written by dynagate, design << digest[:16] >>.
# Packages the accelerator as an RTL kernel without ap_ctrl registers (user_managed): its own are at address 0.
set here [file dirname [file normalize [info script]]]
set kernel [file join $here kernel]
create_project accelerator [file join $here vivado] -part << board.part >> -force
add_files -norecurse [list <% for name in sources %>[file join $here << name >>] <% endfor %>]
set_property top << module >> [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir $kernel -vendor dynagate -library kernel -taxonomy /KernelIP -import_files -set_current true
set core [ipx::current_core]
set_property name << kernel >> $core
set_property version 1.0 $core
set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property ipi_drc {ignore_freq_hz true} $core
ipx::associate_bus_interfaces -busif s_axis -clock ap_clk $core
ipx::associate_bus_interfaces -busif m_axis -clock ap_clk $core
ipx::associate_bus_interfaces -busif s_axil -clock ap_clk $core

# The registers, as hw/regmap.py lists them, in the map that package_project has made of the interface
set map [ipx::get_memory_maps s_axil -of_objects $core]
set block [ipx::get_address_blocks reg0 -of_objects $map]
set_property range 4096 $block
foreach {name offset} {
<% for register in registers %>
  << register.name >> << "0x%03X" | format(register.address) >>
<% endfor %>
} {
  set register [ipx::add_register $name $block]
  set_property address_offset $offset $register
  set_property size 32 $register
}

ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity -kernel $core
ipx::save_core $core
package_xo -force -ctrl_protocol user_managed -xo_path [file join $here << kernel >>.xo] -kernel_name << kernel >> -ip_directory $kernel
close_project
