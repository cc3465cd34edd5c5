# << title >> for << board.title >>: `make` writes << products >>.
VIVADO ?= vivado

accelerator.bit: build.tcl << sources | join(" ") >><% if constraints %> << constraints | join(" ") >><% endif %>

	$(VIVADO) -mode batch -notrace -source build.tcl

# The module alone, with reports in the folder ooc
.PHONY: ooc
ooc: ooc.tcl ooc.xdc
	$(VIVADO) -mode batch -notrace -source ooc.tcl

.PHONY: clean
clean:
	rm -rf ooc vivado .Xil vivado*.jou vivado*.log << products >> clock.json timing.txt utilization.txt
