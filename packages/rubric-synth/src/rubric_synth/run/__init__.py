"""A run over collected documents: its work, its engines and the dataset it writes."""
