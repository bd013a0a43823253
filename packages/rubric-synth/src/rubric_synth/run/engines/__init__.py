"""Engines that work on documents: in this process, or on the actors of a Ray cluster."""

from rubric_synth.run.engines.ray import RayEngine
from rubric_synth.run.engines.worker import LocalEngine, WorkerSpec

Engine = LocalEngine | RayEngine


def make_engine(spec: WorkerSpec) -> Engine:
    """Return the engine that a configuration names."""
    return RayEngine(spec) if spec.config.engine == "ray" else LocalEngine(spec)
