"""The objective of the policy update as pure torch functions.

Read in this order: `ratio` (r_t and GSPO's s_i; TIS, ICEPOP, Seq-Mask-TIS), `surrogate` (clip, dual
clip; k3), `loss` (all of it together, as means that micro-batches add up to), `schedule` (AdamW and
warm-up). `variants` holds the settings, and what packages may add kinds of; `shapes` checks inputs.
Axes: B responses (prompt-major), T response tokens, right-padded.

Names load at their first use: a configuration is read without torch.
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
