"""What is wrong with a task file, before anything is spent on it."""
