"""Extensions by installed packages: judges, trainers, responders and kinds of settings."""
