"""Starting a run, wherever it runs, and following it to its end."""
