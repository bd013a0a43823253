"""What every process of a run shares: where its files are, what it is told, how it ends."""
