"""Trackers: Weights & Biases, MLflow and Trackio, shown what the run folder holds.

Each has a process of its own, which reads the run folder as any reader does: a tracker that hangs,
fails or prints does not disturb the run, and both backends show the same.
"""
