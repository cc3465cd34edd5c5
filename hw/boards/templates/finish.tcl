validate_bd_design
save_bd_design

# The clock that the device makes: dividers of the processor, or a PLL, may not reach the requested one
set requested_mhz << "%g" | format(clock) >>
set clock_name [file join $here clock.json]
file delete $clock_name
<% if processor %>
catch {get_property CONFIG.<< processor.actual_frequency >> [get_bd_cells << processor.cell >>]} clock_mhz
<% else %>
catch {expr {[get_property CONFIG.FREQ_HZ [get_bd_pins datapath_clock/clk_out1]] / 1e6}} clock_mhz
<% endif %>
if {[string is double -strict $clock_mhz]} {
  set clock_mhz [format %g $clock_mhz]
  if {abs($clock_mhz - $requested_mhz) > 0.01 * $requested_mhz} {
    puts "WARNING: the device makes a clock of $clock_mhz MHz; $requested_mhz MHz were requested. Rates follow clock.json"
  }
  set clock_file [open $clock_name w]
  puts $clock_file "{\"requested_mhz\": $requested_mhz, \"actual_mhz\": $clock_mhz}"
  close $clock_file
} else {
  puts "WARNING: Vivado reports no clock: $clock_mhz. The requested $requested_mhz MHz are assumed"
  set clock_mhz $requested_mhz
}

# Synthesis, place and route
set design_file [get_files system.bd]
generate_target all $design_file
add_files -norecurse [list [make_wrapper -files $design_file -top]]
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1
launch_runs synth_1 -jobs $jobs
wait_on_run synth_1
if {[get_property PROGRESS [get_runs synth_1]] ne "100%"} {
  error "synthesis failed: see vivado/accelerator.runs/synth_1/runme.log"
}
launch_runs impl_1 -jobs $jobs
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
  error "place and route failed: see vivado/accelerator.runs/impl_1/runme.log"
}

# A design that misses its timing gets no bitstream
open_run impl_1
report_timing_summary -file [file join $here timing.txt]
report_utilization -file [file join $here utilization.txt]
set slack [get_property STATS.WNS [get_runs impl_1]]
set hold_slack [get_property STATS.WHS [get_runs impl_1]]
set pulse_slack [get_property STATS.TPWS [get_runs impl_1]]
if {$slack < 0 || $hold_slack < 0 || $pulse_slack < 0} {
  error "timing is not met at $clock_mhz MHz: worst slack $slack ns, hold $hold_slack ns, pulse widths $pulse_slack ns in all (timing.txt); expected a lower --clock or --stages multiply=1"
}
launch_runs impl_1 -to_step write_bitstream -jobs $jobs
wait_on_run impl_1
file copy -force [file join $here vivado accelerator.runs impl_1 system_wrapper.bit] [file join $here accelerator.bit]
puts "worst slack $slack ns at $clock_mhz MHz; wrote accelerator.bit"
