"""A network as a user describes it: tensors, layers, loops and conditionals, and their expansions."""
