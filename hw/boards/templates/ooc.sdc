# << title >> out of context. The logic around the module has << outside >> ns of a period at each port.
create_clock -period << period >> -name << clock >> [get_ports << clock >>]
set_input_delay -clock << clock >> -max << outside >> [get_ports {<% for port in inputs %><< port.name >><% if port.is_bus %>[*]<% endif %><% if not loop.last %> <% endif %><% endfor %>}]
set_output_delay -clock << clock >> -max << outside >> [get_ports {<% for port in outputs %><< port.name >><% if port.is_bus %>[*]<% endif %><% if not loop.last %> <% endif %><% endfor %>}]
