"""The local backend: the paper's Algorithm 1 in one process, on a CPU or one GPU.

Read `loop` first; each of its lines is a module here. `start` and `inputs` run before torch is
loaded. `tasks` and `judging` are the judge's side, and nothing in `rollout` or `update` can reach a
passage or a rubric.
"""
