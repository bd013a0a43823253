"""The life of each criterion, by the log of a training run: ours, or that of another stack."""
