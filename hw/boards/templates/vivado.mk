# << title >> for << board.title >>: `make` writes << products >>.
VIVADO ?= vivado

accelerator.bit: build.tcl << sources | join(" ") >><% if constraints %> << constraints >><% endif %>

	$(VIVADO) -mode batch -notrace -source build.tcl

.PHONY: clean
clean:
	rm -rf vivado .Xil vivado*.jou vivado*.log << products >> timing.txt utilization.txt
