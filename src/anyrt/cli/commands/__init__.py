"""One file for each command; importing one loads nothing heavy, that happens when it runs."""
