"""A report of a network as one page of HTML, which opens offline: the build, the times, the accuracy."""
