"""Reports of designs, end to end: build, run, and compare every result with the other ways to compute it.

`report_design` and `report_solver` build a design, run it in simulation and return a `Report`. A report is a title and
sections. `bodies` has the sections that depend on the body of a design: a datapath, or a program. `functions`,
`motions` and `solvers` measure what a design computes, whatever its body.
"""

from __future__ import annotations

from dynagate.host.report.design import Checks, report_design, report_solver
from dynagate.host.report.sections import Report, Section

__all__ = ["Checks", "Report", "Section", "report_design", "report_solver"]
