"""A network as one page of HTML, which opens offline: what was built, how long it takes, how exact it is."""
