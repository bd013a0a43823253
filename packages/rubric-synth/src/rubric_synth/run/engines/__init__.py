"""Engines that work on documents: in this process, in several, or on the actors of a cluster."""

from collections.abc import Sequence

from rubric_synth.run.engines.processes import Process, ProcessEngine
from rubric_synth.run.engines.ray import RayEngine
from rubric_synth.run.engines.worker import LocalEngine, WorkerSpec

Engine = LocalEngine | ProcessEngine | RayEngine


def make_engine(spec: WorkerSpec, processes: Sequence[Process] = ()) -> Engine:
    """Return the engine that a configuration names.

    Args:
        spec: The configuration, and what a caller brings of its own.
        processes: Those that were started for the work; none where this one does it.
    """
    if processes:
        return ProcessEngine(spec, processes)
    return RayEngine(spec) if spec.config.engine == "ray" else LocalEngine(spec)
