"""Tasks in files: formats, splits, leaks, and the content of model folders."""
