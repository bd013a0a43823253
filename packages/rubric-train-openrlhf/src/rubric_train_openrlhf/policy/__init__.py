"""The policy: text to tokens, sampling in groups, log-probabilities, and how one comes to be.

| idea | module |
| --- | --- |
| text to tokens and back | `codec` |
| what of a completion is the answer | `completion` |
| prompts with banned tokens, what is sampled, and batches of both | `rollouts` |
| the next-token distribution | `distribution` |
| drawing G responses per prompt | `sampling`, `decoding`, `llama_decoding` |
| log-probabilities with gradients | `logprobs`, `onednn` |
| a policy from a folder, or from nothing | `load` |
| its warm start | `supervised` |
| one answer per question, for evaluation | `answering` |

Everything random takes a `torch.Generator` or a seed; torch's global random state is not touched.
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
