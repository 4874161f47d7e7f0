"""The only place that applies events, judges and fans out: run(feed, judge, sinks)."""

from gpuwatch.engine.run import Judge, Sink, run

__all__ = ["Judge", "Sink", "run"]
