"""Whether a judge may be trusted, criterion by criterion, against people's labels."""
