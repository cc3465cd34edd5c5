"""Interfaces of a built datapath that benches and the datasheet use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from dynagate.design.design import DesignRecord
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph import Graph
from dynagate.graph.region import Region
from dynagate.hw.plan.plan import Plan
from dynagate.robot import Robot


class ScheduledDatapath(Protocol):
    """The schedule of a datapath: `hw.bodies.pipeline.Pipeline`."""

    @property
    def plan(self) -> Plan: ...


class BuiltDatapath(Protocol):
    """A built datapath: `hw.designs.Design` describes the properties."""

    @property
    def folder(self) -> Path: ...
    @property
    def robot(self) -> Robot: ...
    @property
    def region(self) -> Region: ...
    @property
    def design(self) -> DesignRecord[Any]: ...
    @property
    def hardware(self) -> ScheduledDatapath: ...
    @property
    def formatted(self) -> FormattedGraph: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def title(self) -> str: ...
