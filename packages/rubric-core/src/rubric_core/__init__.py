"""Schemas, rewards and advantages for reinforcement learning with rubric rewards.

Array names end in their axes: **P** prompts, **G** responses of one prompt, **M** criteria of one
rubric, **N** anything. `rewards_PG[p, g]` is the reward of response g to prompt p. All arrays are
float64. Every formula names its equation in a `Source:` line.

The schemas load with the package; what needs numpy loads at its first use.
"""

from rubric_core.lazy import attach

__version__ = "0.1.0"

__getattr__, __all__ = attach(__name__, __file__)
