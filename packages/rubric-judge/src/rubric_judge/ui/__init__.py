"""What commands and pages of all packages are made of."""
