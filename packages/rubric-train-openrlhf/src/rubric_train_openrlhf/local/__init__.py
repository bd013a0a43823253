"""The local backend: the paper's Algorithm 1 in one process, on a CPU or one GPU.

Read `loop` first. `start` and `inputs` run before torch is loaded. The judge's side is in
`step/tasks` and behind the judge that `rollout` was given: what samples and what updates the policy
is handed `PolicyView`s, tokens and advantages, never a passage or a rubric. In self-distillation
(`distilling`) an update also gets the tokens that `teaching` makes of them for the teacher.
"""
