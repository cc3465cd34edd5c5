# << title >> for << board.title >>: written by dynagate, design << digest[:16] >>.
# Needs Vivado 2022.1 or newer. Every path is relative to this file's folder.
set here [file dirname [file normalize [info script]]]
set jobs [expr {[info exists ::env(JOBS)] ? $::env(JOBS) : 4}]

create_project accelerator [file join $here vivado] -part << board.part >> -force
<% if board.board_part %>
set_property board_part << board.board_part >> [current_project]
<% endif %>
<% if board.connections %>
set_property board_connections {<< board.connections >>} [current_project]
<% endif %>
add_files -norecurse [list <% for name in sources %>[file join $here << name >>] <% endfor %>]
<% if constraints %>
add_files -fileset constrs_1 -norecurse [list <% for name in constraints %>[file join $here << name >>]<% if not loop.last %> <% endif %><% endfor %>]
<% endif %>
update_compile_order -fileset sources_1
