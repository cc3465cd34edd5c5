"""Record an algorithm over links as scans: each pass of the algorithm is recorded once for each kind of link.

Passes in one direction that do not depend on one another become one scan. A value that no later scan reads is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.dynamics import EXTERNAL, Argument, Tree
from dynagate.dynamics.friction import FrictionModel
from dynagate.dynamics.links import Links, LinkStep, PassStep, TreeLink, TreeStep
from dynagate.dynamics.recursions.articulated import ArticulatedInertia
from dynagate.dynamics.spatial import Inertia, array, symmetric
from dynagate.graph.graph import Graph, Port, reaching
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Expr, Recording
from dynagate.graph.scan import PASSED, PASSING, TABLE, Scan
from dynagate.graph.sizes import size_of, typical_sizes
from dynagate.robot import Robot
from dynagate.robot.kinds import kind_of

DOWN, UP, EACH, AGAIN, INPUT, WHOLE, RESULT = "down", "up", "each", "again", "input", "whole", "result"
SYMMETRIC_PARTS: dict[type, tuple[str, ...]] = {ArticulatedInertia: ("rotational", "mass"), Inertia: ("second",)}
"""Fields of these types that are symmetric matrices, of which only the upper triangle is stored."""


def flat(value: Any) -> list[Any]:
    """Return the scalars of a structure of tuples, lists and arrays, with the upper triangles of symmetric
    matrices.
    """
    if isinstance(value, np.ndarray):
        return list(value.ravel())
    if isinstance(value, list | tuple):
        halves = SYMMETRIC_PARTS.get(type(value), ())
        names = getattr(value, "_fields", [""] * len(value))
        parts = (
            part[np.triu_indices(len(part))] if name in halves else part
            for name, part in zip(names, value, strict=True)
        )
        return [scalar for part in parts for scalar in flat(part)]
    return [value]


def like(template: Any, scalars: Iterator[Any]) -> Any:
    """Return a structure like the template with other scalars."""
    if isinstance(template, np.ndarray):
        return array([next(scalars) for _ in range(template.size)]).reshape(template.shape)
    if isinstance(template, list | tuple):
        halves = SYMMETRIC_PARTS.get(type(template), ())
        names = getattr(template, "_fields", [""] * len(template))
        parts = [
            symmetric(lambda a, b: next(scalars)) if name in halves else like(part, scalars)
            for name, part in zip(names, template, strict=True)
        ]
        return type(template)(*parts) if names[:1] != [""] and hasattr(template, "_fields") else type(template)(parts)
    return next(scalars)


class _Sort(NamedTuple):
    """The properties that links with equal structure share: the joint type, and the mark of `ScanOptions.marks`."""

    type: str
    mark: Hashable


@dataclass(eq=False)
class _Value:
    """A value that every link has: an input, or the result of a step."""

    how: str
    """How it is computed: DOWN, UP, EACH, AGAIN, INPUT, WHOLE for a computation between scans, or RESULT for a result
    of one.
    """
    part: str = ""
    """Name of the pass."""
    step: Any = None
    """Function that computes it for a link."""
    values: tuple[_Value, ...] = ()
    """Values that the step takes."""
    name: str = ""
    templates: dict[_Sort, Any] = field(default_factory=dict)
    """Structure of a link's result, by sort of link."""
    kept: dict[_Sort, list[int]] = field(default_factory=dict)
    """Entries that later scans read, by sort of link."""
    whole: bool = False
    """Whether all entries are kept."""
    shared: bool = False
    """Whether all links share one value."""
    results: tuple[_Value, ...] = ()
    port: Port | None = None
    starts: tuple[int, ...] = ()

    def sources(self) -> Iterator[_Value]:
        """Yield the values that must exist before this one, with `again` resolved."""
        for value in self.values:
            if value.how in (AGAIN, RESULT):
                yield from value.sources()
            else:
                yield value


class RecordedLinks(Links):
    """Stands for a tree while an algorithm says which passes it makes."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.steps: list[_Value] = []

    @property
    def tree(self) -> Tree:
        return self._tree

    def configurations(self, q: _Value) -> _Value:
        """Return the configuration of each link."""
        return q

    def velocities(self, values: _Value) -> _Value:
        """Return the velocities of each link."""
        return values

    def rows(self, values: _Value) -> _Value:
        """Return the rows of each link."""
        return values

    def vector(self, values: _Value) -> _Value:
        """Return a value for each link as one vector, all of whose entries are kept."""
        values.whole = True
        return values

    def _new(self, how: str, part: str, step: Any, values: tuple[_Value, ...]) -> _Value:
        value = _Value(how, part, step, values)
        if how != AGAIN:
            self.steps.append(value)
        return value

    def map(self, step: LinkStep, *values: _Value) -> _Value:
        """Record a step that each link computes without its neighbors."""
        return self._new(EACH, "", step, values)

    def recompute(self, step: LinkStep, *values: _Value) -> _Value:
        """Record a step like `map` whose result is recomputed where it is read, and not stored."""
        return self._new(AGAIN, "", step, values)

    def down(self, part: str, step: PassStep, *values: _Value) -> _Value:
        """Record a pass from the root to the leaves."""
        return self._new(DOWN, part, step, values)

    def up(self, part: str, step: PassStep, *values: _Value) -> _Value:
        """Record a pass from the leaves to the root."""
        return self._new(UP, part, step, values)

    def gather(self, part: str, step: TreeStep, by_link: Sequence[bool], *values: _Value) -> tuple[_Value, ...]:
        """Record a computation between scans that reads the values of all links."""
        once = self._new(WHOLE, part, step, values)
        once.results = tuple(_Value(RESULT, part, values=(once,), whole=True, shared=not each) for each in by_link)
        return once.results

    def broadcast(self, value: _Value) -> _Value:
        """Return a value for all links."""
        return value


def grouped(steps: Sequence[_Value], results: Sequence[_Value]) -> list[tuple[str, list[_Value]]]:
    """Group the steps into scans, each with its direction.

    The number of scans is the smallest possible, and each step is as late as its readers allow, so that few values are
    kept between scans. Steps of single links come first.

    Args:
        steps: The steps.
        results: The steps that are outputs.
    """
    plans = [_planned(steps, first) for first in (DOWN, UP)]
    place, directions = min(plans, key=lambda plan: len(plan[1]))
    for step in reversed(steps):
        readers = [place[other] for other in steps if step in other.sources()]
        if step.how != EACH:
            last = min(readers, default=place[step] if step in results else len(directions) - 1)
            place[step] = max(k for k in range(last + 1) if directions[k] == step.how)
    return [(way, [s for s in steps if place[s] == k]) for k, way in enumerate(directions)]


def _planned(steps: Sequence[_Value], first: str) -> tuple[dict[_Value, int], list[str]]:
    """Return, for each step, the earliest scan that it fits in, if the scans begin with this direction."""
    place: dict[_Value, int] = {}
    directions = [first]
    for step in steps:
        at = max((place[source] for source in step.sources() if source in place), default=0)
        while directions[at] != step.how if step.how != EACH else directions[at] == WHOLE:
            at += 1
            if at == len(directions):
                directions.append(DOWN if step.how == EACH else step.how)
        place[step] = at
    return place, directions


class _Kind(NamedTuple):
    """The properties that links with one body share; `comes` is True if values arrive from a neighbor."""

    sort: _Sort
    comes: bool
    goes: bool
    rotors: tuple[bool, ...]


@dataclass
class _Body:
    """The body of one kind of link during recording; `table` has the constants of its links, (links, numbers)."""

    recording: Recording
    links: list[int]
    table: Array
    read: dict[_Value, list[Any]] = field(default_factory=dict)
    passed: list[Any] = field(default_factory=list)
    passing: list[Any] = field(default_factory=list)
    results: dict[_Value, list[Any]] = field(default_factory=dict)
    structures: dict[_Value, Any] = field(default_factory=dict)


class _Group:
    """The passes of one scan."""

    def __init__(self, down: bool, steps: Sequence[_Value], known: _Sorted, name: str, external: bool) -> None:
        self.down, self.steps, self.sorts, self.name, self.external = down, steps, known.sorts, name, external
        self.tree = tree = known.tree
        self.passes = [step for step in steps if step.how != EACH]
        self.kinds: dict[_Kind, _Body] = {}
        self.of_link: list[_Kind] = [self._kind(i) for i in tree.links]
        self.templates: dict[_Value, Any] = {}
        """For each pass, the structure of the values that go on."""
        for i in tree.links if down else reversed(tree.links):
            kind = self.of_link[i]
            if kind not in self.kinds:
                self.kinds[kind] = self._recorded(kind, [j for j in tree.links if self.of_link[j] == kind])

    def _kind(self, i: int) -> _Kind:
        """Return the properties of link i that decide which other links have the same body."""
        tree = self.tree
        root, leaf = tree.parents[i] < 0, i not in tree.parents
        ends = (not root, True) if self.down else (not leaf, not root)
        if not self.passes:
            ends = False, False
        rotors = tuple(tree.armature[d] != 0.0 for d in tree.dofs[i])
        return _Kind(self.sorts[i], *ends, rotors)

    def _recorded(self, kind: _Kind, links: list[int]) -> _Body:
        """Record every step of the scan for a kind of link; constants that differ between its links become
        symbols.
        """
        numbers = np.array([_numbers(self.tree.each_link[i], self.external) for i in links], dtype=np.float64)
        differ = np.flatnonzero(np.any(numbers != numbers[0], axis=0))
        recording = Recording(self.name, self.tree.robot.name)
        body = _Body(recording, links, numbers[:, differ])
        values = array(numbers[0])
        if len(differ):
            values[differ] = recording.input(TABLE, (len(differ),))
        link = _linked(self.tree.each_link[links[0]], list(values), self.external)
        come = self._coming(kind, body)
        for step in self.steps:
            own = [self._value(body, value, kind, link) for value in step.values]
            if step.how == EACH:
                result = step.step(link, *own)
            else:
                with scope(step.part):
                    on, result = step.step(link, come.get(step), *own)
                self.templates.setdefault(step, on)
                body.passing += flat(on) if kind.goes else []
            step.templates.setdefault(kind.sort, result)
            body.structures[step] = result
            body.results[step] = flat(result)
        return body

    def _coming(self, kind: _Kind, body: _Body) -> dict[_Value, Any]:
        """Return the arriving values of each pass, as symbols."""
        if not kind.comes or not self.passes:
            return {}
        sizes = [len(flat(self.templates[step])) for step in self.passes]
        body.passed = list(body.recording.input(PASSED, (sum(sizes),)))
        symbols = iter(body.passed)
        return {step: like(self.templates[step], symbols) for step in self.passes}

    def _value(self, body: _Body, value: _Value, kind: _Kind, link: TreeLink) -> Any:
        """Return a value of the link: the result of a step of this scan, or symbols for a kept value."""
        if value in body.structures:
            return body.structures[value]
        if value.how == AGAIN:
            own = [self._value(body, source, kind, link) for source in value.values]
            body.structures[value] = value.step(link, *own)
            return body.structures[value]
        template = value.templates[kind.sort]
        units = _unit_vectors(value, kind.sort.type)
        symbols = body.recording.input(value.name, (len(flat(template)),), unit_vectors=units)
        body.read[value] = list(symbols)
        body.structures[value] = like(template, iter(symbols))
        return body.structures[value]

    def prune(self) -> None:
        """Find the values that later scans and results need, including passed values, and note which entries
        are read.
        """
        self.along: list[int] = []
        while True:
            used = {k for kind, body in self.kinds.items() for k in _used(body, self._outputs(kind, body), body.passed)}
            if used == set(self.along):
                break
            self.along = sorted(used | set(self.along))
        for kind, body in self.kinds.items():
            for value, symbols in body.read.items():
                more = _used(body, self._outputs(kind, body), symbols)
                value.kept[kind.sort] = sorted({*value.kept.get(kind.sort, []), *more})

    def _outputs(self, kind: _Kind, body: _Body) -> dict[str, list[Any]]:
        results = {step.name: [body.results[step][k] for k in _kept(step, kind.sort)] for step in self.steps}
        if kind.goes and self.along:
            results[PASSING] = [body.passing[k] for k in self.along]
        return {name: entries for name, entries in results.items() if entries}

    def scan(self, number: int, values: Sequence[_Value]) -> Scan:
        """Return the scan; every later scan must be complete. `values` are all values that the bodies may read and
        write.
        """
        bodies: list[Graph] = []
        tables: dict[int, tuple[float, ...]] = {}
        for kind, body in self.kinds.items():
            outputs = self._outputs(kind, body)
            recording = body.recording
            for value in body.read:
                if value.how != INPUT:
                    recording.keep(value.name, _kept(value, kind.sort))
            if body.passed:
                recording.keep(PASSED, self.along)
            columns: list[int] = []
            if TABLE in recording.inputs:
                columns = _used(body, outputs, list(recording.inputs[TABLE]))
                recording.keep(TABLE, columns)
            tables |= dict(zip(body.links, map(tuple, body.table[:, columns].tolist()), strict=True))
            bodies.append(recording.graph({name: array(entries) for name, entries in outputs.items()}))
        read = [port.name for body in bodies for port in body.inputs]
        written = {port.name for body in bodies for port in body.outputs}
        order = list(self.kinds)
        own = [value for value in values if value.name in {*read, *written}]
        return Scan(
            f"{self.name}_scan{number}",
            self.tree.robot.name,
            self.down,
            tuple(self.tree.parents),
            tuple(bodies),
            tuple(order.index(kind) for kind in self.of_link),
            tuple(tables[i] for i in self.tree.links),
            {value.name: value.starts for value in own},
            tuple(_port(value) for value in own if value.name in read and value.name not in written),
            tuple(_port(value) for value in own if value.name in written),
        )


class _Once:
    """A computation between scans: a scan of one link, whose body reads and writes complete values."""

    def __init__(self, steps: Sequence[_Value], tree: _Sorted, name: str) -> None:
        self.steps, self.tree, self.sorts, self.name = steps, tree.tree, tree.sorts, name
        self.body = _Body(Recording(name, tree.tree.robot.name), [0], np.zeros((1, 0)))
        for step in steps:
            with scope(step.part):
                results = step.step(self.tree, *(self._value(value) for value in step.values))
            for value, result in zip(step.results, results, strict=True):
                self.body.structures[value] = result
                self.body.results[value] = flat(result)
                for i, sort in enumerate(self.sorts):
                    value.templates[sort] = result if value.shared else result[i]

    def _sorts(self, value: _Value) -> list[_Sort]:
        """Return the sorts of links whose entries a value has, in order."""
        return self.sorts[:1] if value.shared else self.sorts

    def _value(self, value: _Value) -> Any:
        """Return a value of all links."""
        if value in self.body.structures:
            return self.body.structures[value]
        templates = [value.templates[sort] for sort in self._sorts(value)]
        symbols = self.body.recording.input(value.name, (sum(len(flat(template)) for template in templates),))
        self.body.read[value] = list(symbols)
        entries = iter(symbols)
        own = [like(template, entries) for template in templates]
        self.body.structures[value] = own[0] if value.shared else own
        return self.body.structures[value]

    def prune(self) -> None:
        """Note which entries the results need; all results are kept."""
        outputs = self._outputs()
        for value, symbols in self.body.read.items():
            used, first = set(_used(self.body, outputs, symbols)), 0
            for sort in self._sorts(value):
                size = len(flat(value.templates[sort]))
                more = [k - first for k in used if first <= k < first + size]
                value.kept[sort] = sorted({*value.kept.get(sort, []), *more})
                first += size

    def _outputs(self) -> dict[str, list[Any]]:
        named = {value.name: entries for value, entries in self.body.results.items()}
        return {name: entries for name, entries in named.items() if entries}

    def scan(self, number: int, values: Sequence[_Value]) -> Scan:
        """Return the scan; every later scan must be complete. `values` are all values that the body may read
        and write.
        """
        recording = self.body.recording
        for value in self.body.read:
            if value.how == INPUT:
                continue
            kept, first = list[int](), 0
            for sort in self._sorts(value):
                kept += [first + k for k in _kept(value, sort)]
                first += len(flat(value.templates[sort]))
            recording.keep(value.name, kept)
        body = recording.graph({name: array(entries) for name, entries in self._outputs().items()})
        read, written = ([port.name for port in ports] for ports in (body.inputs, body.outputs))
        own = [value for value in values if value.name in {*read, *written}]
        return Scan(
            f"{self.name}_once{number}",
            self.tree.robot.name,
            True,
            (-1,),
            (body,),
            (0,),
            ((),),
            {value.name: (0,) for value in own},
            tuple(_port(value) for value in own if value.name in read),
            tuple(_port(value) for value in own if value.name in written),
        )


def _kept(value: _Value, sort: _Sort) -> list[int]:
    """Return the entries of a link's result that are kept."""
    return list(range(len(flat(value.templates[sort])))) if value.whole else value.kept.get(sort, [])


def _used(body: _Body, outputs: Mapping[str, Sequence[Any]], symbols: Sequence[Any]) -> list[int]:
    """Return the inputs of a body that its outputs depend on."""
    nodes = body.recording.trace.nodes
    live = reaching(nodes, (entry.id for entries in outputs.values() for entry in entries if isinstance(entry, Expr)))
    return [k for k, symbol in enumerate(symbols) if live[symbol.id]]


def _port(value: _Value) -> Port:
    assert value.port is not None
    return value.port


def _unit_vectors(value: _Value, type: str) -> tuple[tuple[int, int], ...]:
    kind = kind_of(type)
    return ((kind.nq - 4, kind.nq),) if value.name == "q" and kind.has_quaternion else ()


def _numbers(link: TreeLink, external: bool) -> list[float]:
    """Return the constants of a link that a body reads, in the order in which `_linked` unpacks them."""
    forces = [] if link.friction is None else list(link.friction.forces)
    parts = [link.rotation, link.origin, link.inertia, list(link.armature), list(link.damping), forces]
    if external:
        parts += [link.to_file_axes, [link.moved]]
    return [float(number) for number in flat(parts)]


def _linked(link: TreeLink, numbers: Sequence[Any], external: bool) -> TreeLink:
    """Return the link with other constants."""
    friction = link.friction
    forces = [] if friction is None else list(friction.forces)
    template = [link.rotation, link.origin, link.inertia, list(link.armature), list(link.damping), forces]
    if external:
        template += [link.to_file_axes, [link.moved]]
    rotation, origin, inertia, armature, damping, forces, *rest = like(template, iter(numbers))
    turn, moved = (rest[0], rest[1][0]) if external else (link.to_file_axes, link.moved)
    return TreeLink(
        0,
        link.kind,
        rotation,
        origin,
        inertia,
        armature=armature,
        damping=damping,
        friction=None if friction is None else replace(friction, forces=tuple(forces)),
        to_file_axes=turn,
        moved=moved,
        base_acceleration=link.base_acceleration,
    )


class ScanOptions(NamedTuple):
    """Options of an algorithm that is recorded over links."""

    external: bool
    """Whether external forces are an input."""
    friction: FrictionModel | None
    """Friction of the joints."""
    marks: Callable[[Tree], Sequence[Hashable]] | None = None
    """Returns for each link of a tree a mark, such that only links of equal marks and joint types share a body."""


class _Sorted(NamedTuple):
    """A tree, and the sort of each of its links."""

    tree: Tree
    sorts: list[_Sort]


def recorded(
    robot: Robot,
    name: str,
    algorithm: Any,
    arguments: Sequence[Argument],
    outputs: Sequence[str],
    options: ScanOptions,
) -> Loop:
    """Record an algorithm over links as a loop of scans.

    Args:
        robot: The robot.
        name: Name of the function.
        algorithm: The algorithm.
        arguments: Inputs of the function.
        outputs: Names of the outputs, in the algorithm's order.
        options: Options of the algorithm.

    Returns:
        A loop of one iteration.
    """
    tree = Tree(robot, reduced=False, friction=options.friction)
    marks = options.marks(tree) if options.marks else [() for _ in tree.links]
    sorts = [_Sort(_type(link.joint.type), mark) for link, mark in zip(tree.robot.links, marks, strict=True)]
    known_tree, sizes = _Sorted(tree, sorts), typical_sizes(tree)
    inputs = [_input(known_tree, argument, sizes) for argument in arguments]
    outside = {"external": _input(known_tree, EXTERNAL, sizes)} if options.external else {}
    links = RecordedLinks(tree)
    results = algorithm(links, *inputs, **outside)
    steps = [value for step in links.steps for value in (step, *step.results)]
    for number, step in enumerate(steps):
        step.name = f"{name}_{step.part or step.how}_{number}"
    values = results if isinstance(results, list | tuple) else [results]
    for output, value in zip(outputs, values, strict=True):
        value.name = output
    external = bool(outside)
    groups = [
        _Once(own, known_tree, name) if way == WHOLE else _Group(way == DOWN, own, known_tree, name, external)
        for way, own in grouped(links.steps, list(values))
    ]
    for group in reversed(groups):
        group.prune()
    for step in steps:
        if step.how != WHOLE:
            _placed(known_tree, step)
    known = [*inputs, *outside.values(), *(step for step in steps if step.how != WHOLE)]
    scans = [group.scan(k, known) for k, group in enumerate(groups)]
    return Loop(name, robot.name, tuple(scans), {}, Count(1), last=tuple(outputs))


def _input(known: _Sorted, argument: Argument, sizes: Mapping[str, Any]) -> _Value:
    """Return an input of the function, which is divided among the links or shared by all."""
    robot, space = known.tree.robot, argument.values
    shape, shared = argument.shape(known.tree.source), space.by_link is None
    count = int(np.prod(shape))
    whole = slice(0, count)
    parts = [space.by_link(i, p, v) if space.by_link else whole for i, (_, p, v) in enumerate(robot.slices())]
    magnitudes = tuple(np.broadcast_to(np.asarray(size_of(argument, sizes), dtype=float), shape).ravel().tolist())
    nodes, units = tuple(range(count)), argument.unit_vectors(robot)
    port = Port(argument.name, shape, nodes, units, sizes=magnitudes, switches=space.is_switch)
    value = _Value(INPUT, name=argument.name, shared=shared, port=port, starts=tuple(part.start for part in parts))
    for sort, part in zip(known.sorts, parts, strict=True):
        value.templates[sort] = [0.0] * (part.stop - part.start)
    return value


def _placed(known: _Sorted, value: _Value) -> None:
    """Set the positions of each link's kept entries."""
    counts = [len(_kept(value, sort)) for sort in known.sorts]
    ends = np.cumsum(counts)
    value.starts = tuple(int(end) - count for end, count in zip(ends, counts, strict=True))
    total = counts[0] if value.shared else int(ends[-1])
    if value.shared:
        value.starts = tuple(0 for _ in counts)
    value.port = Port(value.name, (total,), tuple(range(total)))


def _type(joint: str) -> str:
    """Return the joint type without limits: joints with and without limits have the same body."""
    return "revolute" if kind_of(joint).turning else joint
