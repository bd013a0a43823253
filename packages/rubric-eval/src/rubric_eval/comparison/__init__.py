"""Evaluations side by side.

stages       held-out evaluations in memory, with their controls
folders      evaluations on disk
evaluations  measured values of any number of models, benchmarks and judges, in all and in parts
pairing      comparable values, each model's score, and each tested difference
results      the results: comparison.json
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
