"""`anyrt batch`: runs a model over files, in several processes, and resumes an interrupted run."""
