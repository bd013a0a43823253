"""What the commands of all packages say while they work; `command` has what makes one of them."""
