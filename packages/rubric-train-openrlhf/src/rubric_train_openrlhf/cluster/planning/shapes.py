"""GPUs, and what sizes and times are guessed with."""

from __future__ import annotations

from typing import Final, NamedTuple

from rubric_core.files import toml_beside

GB = 1e9


class Gpu(NamedTuple):
    """What a data sheet says."""

    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes a second."""
    flops: float
    """16-bit matrix operations a second, dense."""


# NVIDIA's data sheets of the SXM modules.
GPUS = (Gpu("H100 80 GB", 80 * GB, 3.35e12, 989e12), Gpu("H200 141 GB", 141 * GB, 4.8e12, 989e12))
# NVIDIA's white paper on the Ada architecture, appendix A; 16-bit products summed in 32 bits.
SMALL_GPU = Gpu("RTX 4090 24 GB", 24 * GB, 1.008e12, 165.2e12)


def planned_gpus(run_gpus: int) -> tuple[Gpu, ...]:
    """Return the GPUs that a plan is worked out for; a small one where the run has a single one."""
    return (SMALL_GPU, *GPUS) if run_gpus == 1 else GPUS


class Assumption(NamedTuple):
    """A guess with its reason."""

    value: float
    meaning: str
    source: str


ASSUMPTIONS: Final = {
    name: Assumption(**row) for name, row in toml_beside(__file__, "assumptions.toml").items()
}
"""Every guess by its name, in the order of `assumptions.toml`."""


def assumed(name: str) -> float:
    """Value of a guess."""
    return ASSUMPTIONS[name].value
