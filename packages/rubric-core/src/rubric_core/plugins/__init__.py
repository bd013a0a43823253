"""What installed packages add: judges, trainers, responders and kinds of settings."""
