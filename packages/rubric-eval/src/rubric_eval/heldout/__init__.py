"""Held-out rubric reward: models on questions that no training used, all judged alike.

in_memory  responses at hand, judged in memory
plan       what is to be evaluated
table      Table 1, and judges side by side
run        models answer, or the folder gives its answers, while judges judge; then the table
"""
