"""Layer classes."""


def layer_class(name: str) -> type:
    raise AttributeError(f"module 'anyrt' has no attribute {name!r}")


def layer_class_names() -> list[str]:
    return []
