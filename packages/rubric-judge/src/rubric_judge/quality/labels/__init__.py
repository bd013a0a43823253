"""People's scores, criterion by criterion: their file, its checks, other tools' exports."""
