"""`anyrt exec`: trtexec's options, lines and files."""
