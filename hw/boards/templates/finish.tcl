validate_bd_design
save_bd_design

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
  error "timing is not met at << "%g" | format(clock) >> MHz: worst slack $slack ns, hold $hold_slack ns, pulse widths $pulse_slack ns in all (timing.txt); expected a lower --clock or --stages multiply=1"
}
launch_runs impl_1 -to_step write_bitstream -jobs $jobs
wait_on_run impl_1
file copy -force [file join $here vivado accelerator.runs impl_1 system_wrapper.bit] [file join $here accelerator.bit]
puts "worst slack $slack ns at << "%g" | format(clock) >> MHz; wrote accelerator.bit"
