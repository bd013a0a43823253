"""Checks that a draft passes before it becomes a task of the dataset; the first failure counts.

In this order:

`check_unrepeated` compares with the document's earlier questions.
`check_draft` reads: structure, self-containedness, leaks.
`check_executable_criteria` runs what a program can decide.
`check_rewards` asks a judge: what the reference answer earns, and what answers earn that should
not.

Each raises `StageRefusal` with its reason; none raises anything else for what a draft holds.
"""
