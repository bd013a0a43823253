"""The policy's side, learning: the trainer, its updates and its checkpoints."""
