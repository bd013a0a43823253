"""Where the work on documents is done: in this process, or on the actors of a Ray cluster."""

from __future__ import annotations

from rubric_synth.config import SynthConfig
from rubric_synth.engines.protocol import Engine, LocalEngine, OwnStages, Pending, Sink, WorkerSpec

__all__ = ["Engine", "LocalEngine", "OwnStages", "Pending", "Sink", "WorkerSpec", "make_engine"]


def make_engine(config: SynthConfig, spec: WorkerSpec) -> Engine:
    """Return the engine that a configuration names."""
    if config.engine == "ray":
        from rubric_synth.engines.ray import RayEngine  # Ray takes a second to load

        return RayEngine(config, spec)
    return LocalEngine(config, spec)
