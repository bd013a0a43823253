"""Criteria, rubrics, tasks, and the two views of a task."""
