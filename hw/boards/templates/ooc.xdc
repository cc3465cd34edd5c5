# << title >> out of context. The logic around the module has << outside >> ns of a period at each port.
create_clock -period << period >> -name << clock >> [get_ports << clock >>]
set_input_delay -clock << clock >> -max << outside >> [get_ports -filter {DIRECTION == IN && NAME != "<< clock >>"}]
set_output_delay -clock << clock >> -max << outside >> [get_ports -filter {DIRECTION == OUT}]
