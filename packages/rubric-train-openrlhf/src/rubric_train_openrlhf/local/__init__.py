"""The local backend: the paper's Algorithm 1 in one process, on a CPU or one GPU.

Read `loop` first. `start` and `inputs` run before torch is loaded. The judge's side is in
`step/tasks` and behind the judge that `rollout` was given: nothing in `rollout` or `update` can
reach a passage or a rubric.
"""
