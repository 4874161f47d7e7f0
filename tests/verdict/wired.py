"""A job whose samples come as they do from agents: framed, sent, decoded, then applied."""

from collections.abc import Sequence

import msgspec

from gpuwatch.agent import catalogue, frame
from gpuwatch.feed.decode import Decoder, Frame
from gpuwatch.model.event import Sample
from gpuwatch.verdict.judge import Judge
from verdict.scenario import Node, Play

__all__ = ["Wired"]


class Wired(Play):
    """A cluster and its judge, fed with what a decoder makes of agents' frames."""

    def __init__(self, names: Sequence[str], judge: Judge | None = None) -> None:
        super().__init__(names, judge)
        self._wires = {name: _Wire() for name in names}

    def sample(self, node: Node) -> Sample:
        """Return what arrives of a node's next second."""
        return self._wires[node.name].sent(super().sample(node))


class _Wire:
    """One agent's encoder and the viewer's decoder of it."""

    def __init__(self) -> None:
        self._names = frame.Names(catalogue.SCOPES)
        self._decoder = Decoder()
        self._decoder.feed(frame.pack(["hello", catalogue.SCHEMA, "a", "b", {}]))

    def sent(self, sample: Sample) -> Sample:
        rows: frame.Rows = {
            scope: {row.labels: list(row.values) for row in table}
            for scope, table in zip(catalogue.SCOPES, sample.tables, strict=True)
        }
        if self._names.settle(rows):
            assert not self._decoder.feed(frame.pack(self._names.message(catalogue.SCHEMA)))
        stamps = (sample.node_mono_us, sample.node_wall_us, 0, 0)
        message = frame.data(
            catalogue.SCHEMA, sample.sequence, stamps, self._names, catalogue.SCOPES, rows
        )
        (decoded,) = self._decoder.feed(frame.pack(message))
        assert isinstance(decoded, Frame)
        return msgspec.structs.replace(sample, tables=decoded.tables)
