"""What a criterion, a rubric, a task and the two views of it are."""
