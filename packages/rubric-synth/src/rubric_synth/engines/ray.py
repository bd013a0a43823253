"""The engine of a Ray cluster: workers in actors, which Ray places, starts again and feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from rubric_synth.engines.ray_cluster import connected
from rubric_synth.engines.ray_crew import Crew

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_synth.config import SynthConfig
    from rubric_synth.engines.protocol import Pending, Sink
    from rubric_synth.engines.spec import WorkerSpec


class RayEngine:
    """Documents in work spread over actors; one limiter for all of them.

    An actor that dies is started again by Ray, and its documents are worked on again, with the
    answers that they had got. Where this process is killed, nothing is asked twice but what was in
    flight then and what the actors ask in the three seconds until they notice: they make calls only
    while this process speaks to them, and wait where it does not; Ray then ends them. That holds
    for calls through a limiter, which a caller's own judge may do without. Keys are read from the
    environment of each worker: they must be set on every node before Ray starts there.
    """

    def __init__(self, config: SynthConfig, spec: WorkerSpec) -> None:
        """Keep the settings; nothing is started yet."""
        self._config = config
        self._spec = spec
        self._crew: Crew | None = None

    @property
    def calls_in_flight(self) -> int:
        """Documents in work; the calls are made elsewhere."""
        return self._crew.in_work if self._crew is not None else 0

    async def run(self, pending: Iterable[Pending], sink: Sink) -> None:
        """Work on documents; see `Engine.run`. Starting takes seconds.

        Raises:
            MissingExtraError: Ray is not installed.
            EngineError: There is no cluster, or none of its workers lives.
            JudgeSetupError, ConfigError, PluginError: A worker cannot be built there.
            OutputError: The sink could not keep something.
        """
        with connected(self._config.ray.address) as ray:
            self._crew = Crew(ray, self._config, self._spec, sink)
            try:
                await self._crew.work_on(pending)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._crew.end()
