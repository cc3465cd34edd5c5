# << title >> out of context: written by dynagate, design << digest[:16] >>.
# Synthesis, place and route of the module << top >> alone, without pins. The clock is in ooc.xdc, the reports go into the
# folder ooc. Another device: PART=xc7z020clg400-1 vivado -mode batch -notrace -source ooc.tcl
set here [file dirname [file normalize [info script]]]
set part [expr {[info exists ::env(PART)] ? $::env(PART) : "<< part >>"}]
set reports [file join $here ooc]
file mkdir $reports

create_project -in_memory -part $part
read_verilog [list <% for name in sources %>[file join $here << name >>] <% endfor %>]
read_xdc -mode out_of_context [file join $here ooc.xdc]

synth_design -top << top >> -part $part -mode out_of_context
opt_design
place_design
phys_opt_design
route_design

report_timing_summary -file [file join $reports timing.txt]
report_utilization -hierarchical -file [file join $reports utilization.txt]
report_cdc -details -file [file join $reports cdc.txt]
report_methodology -file [file join $reports methodology.txt]
report_high_fanout_nets -max_nets 50 -file [file join $reports fanout.txt]
report_control_sets -verbose -file [file join $reports resets.txt]
write_checkpoint -force [file join $reports << top >>.dcp]
puts "worst slack [get_property SLACK [get_timing_paths -setup -max_paths 1]] ns on $part; reports in ooc"
