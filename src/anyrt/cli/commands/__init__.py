"""One file for each command; importing one loads nothing expensive, running it does."""
