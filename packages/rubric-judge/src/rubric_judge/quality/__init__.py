"""What a judge, a rubric and a label are worth."""
