"""Judges that score a response against a rubric."""
