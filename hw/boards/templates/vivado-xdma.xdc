<% include "vivado-xdma.sdc" %>
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
