# << title >> for << board.title >>: `make` writes << products >>. `make TARGET=hw_emu` builds for emulation.
PLATFORM ?= << board.platform >>
TARGET ?= hw
VIVADO ?= vivado
VPP ?= v++
EMCONFIGUTIL ?= emconfigutil
HERTZ := << (clock * 1000000) | int >>

accelerator.xclbin: << kernel >>.xo read_samples.xo write_results.xo link.cfg <% if board.dies > 1 %>floorplan.xdc <% endif %>$(if $(filter hw_emu,$(TARGET)),emconfig.json)
	$(VPP) --link --target $(TARGET) --platform $(PLATFORM) --config link.cfg --clock.defaultFreqHz $(HERTZ) \
<% if board.dies > 1 %>
	  --vivado.prop run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE=$(CURDIR)/floorplan.xdc \
<% endif %>
	  --save-temps --output $@ << kernel >>.xo read_samples.xo write_results.xo
	xclbinutil --info --input $@ > clocks.txt

<< kernel >>.xo: package.tcl << sources | join(" ") >>
	$(VIVADO) -mode batch -notrace -source package.tcl

# What an emulated card is: it lies beside the program that opens it, which needs XCL_EMULATION_MODE=hw_emu
emconfig.json:
	$(EMCONFIGUTIL) --platform $(PLATFORM) --nd 1 --od .

%.xo: %.cpp
	$(VPP) --compile --target $(TARGET) --platform $(PLATFORM) --kernel $* --output $@ $<

# The module alone, with reports in the folder ooc
.PHONY: ooc
ooc: ooc.tcl ooc.xdc
	$(VIVADO) -mode batch -notrace -source ooc.tcl

.PHONY: clean
clean:
	rm -rf ooc kernel vivado _x .Xil *.log *.jou *.xo << products >> clocks.txt emconfig.json
