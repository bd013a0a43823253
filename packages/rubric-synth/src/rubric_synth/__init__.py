"""From technical documents to tasks with rubrics."""
