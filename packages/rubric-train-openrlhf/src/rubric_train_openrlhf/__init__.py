"""Group-relative policy optimisation from rubric rewards."""
