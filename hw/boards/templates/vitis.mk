# << title >> for << board.title >>: `make` writes << products >>. `make TARGET=hw_emu` builds for emulation.
PLATFORM ?= << board.platform >>
TARGET ?= hw
VIVADO ?= vivado
VPP ?= v++
HERTZ := << (clock * 1000000) | int >>

accelerator.xclbin: << kernel >>.xo read_samples.xo write_results.xo link.cfg
	$(VPP) --link --target $(TARGET) --platform $(PLATFORM) --config link.cfg --clock.defaultFreqHz $(HERTZ) \
	  --save-temps --output $@ << kernel >>.xo read_samples.xo write_results.xo
	xclbinutil --info --input $@ > clocks.txt

<< kernel >>.xo: package.tcl << sources | join(" ") >>
	$(VIVADO) -mode batch -notrace -source package.tcl

%.xo: %.cpp
	$(VPP) --compile --target $(TARGET) --platform $(PLATFORM) --kernel $* --output $@ $<

.PHONY: clean
clean:
	rm -rf kernel vivado _x .Xil *.log *.jou *.xo << products >> clocks.txt
