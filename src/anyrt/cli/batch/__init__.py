"""`anyrt batch`: a model over files, in several processes, which goes on where it ended."""
