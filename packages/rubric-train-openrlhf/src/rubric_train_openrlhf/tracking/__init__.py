"""Trackers: Weights & Biases, MLflow and Trackio, shown what the run folder holds.

Each has a process of its own, which reads the run folder as any reader does: a tracker that hangs,
fails or prints is none of the run's business, and both backends show the same.
"""
