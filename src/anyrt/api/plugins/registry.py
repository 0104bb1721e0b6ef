"""The plug-in registry: creators by name, version and namespace, and shared resources of plug-ins."""

from __future__ import annotations

import threading
from typing import TypeVar

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import Logger
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import Channel, Reporting, boolean, nothing, quiet, wrong_type
from anyrt.api.model.named import checked_text
from anyrt.api.plugins.creators import IPluginCreator, IPluginCreatorInterface
from anyrt.api.plugins.library import Library, load
from anyrt.api.plugins.user_calls import call_function, call_method
from anyrt.api.plugins.v3 import IPluginResource
from anyrt.core.errors import AnyrtError, PluginError
from anyrt.core.units import counted

C = TypeVar("C", bound=IPluginCreatorInterface)
Key = tuple[str, str, str]


@fold
class FallbackString(Fixed):
    """A replacement for `str` in calls of the registry; equal to any str with the same text."""

    __slots__ = ("__weakref__", "_text")

    def __init__(self, arg0: str = "") -> None:
        if not isinstance(arg0, str):
            raise wrong_type("FallbackString", arg0, "a str")
        self._text = arg0

    def __str__(self) -> str:
        return self._text

    @one_line
    def __repr__(self) -> str:
        return f" {self._text!r}"

    def __eq__(self, other: object) -> bool:
        return str(other) == self._text if isinstance(other, FallbackString | str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)


@fold
class IPluginRegistry(Reporting):
    """The creators of plug-ins by name, version and namespace; thread-safe.

    registry = trt.get_plugin_registry()
    registry.register_creator(MyCreator(), "")
    creator = registry.get_creator("MyPlugin", "1", "")
    """

    __slots__ = ("_creators", "_libraries", "_lock", "_parent_search", "_resources")

    def __init__(self) -> None:
        self._channel = Channel(Logger())
        self._lock = threading.RLock()
        self._creators: dict[Key, IPluginCreatorInterface] = {}
        self._resources: dict[str, tuple[IPluginResource, int]] = {}
        self._libraries: list[Library] = []
        self._parent_search = True

    @property
    def parent_search_enabled(self) -> bool:
        """Whether to search parents; without effect, since there are none."""
        return self._parent_search

    @parent_search_enabled.setter
    def parent_search_enabled(self, enabled: bool) -> None:
        self._parent_search = boolean(enabled, "IPluginRegistry.parent_search_enabled")

    @one_line
    def __repr__(self) -> str:
        return f": {counted(len(self.all_creators), 'creator')}"

    @property
    def all_creators(self) -> list[object]:
        """All creators of this registry."""
        with self._lock:
            return list(self._creators.values())

    @property
    def all_creators_recursive(self) -> list[object]:
        """All creators of this registry; it has no parents."""
        return self.all_creators

    @property
    def plugin_creator_list(self) -> list[IPluginCreator]:
        """All creators of plug-ins of version 2."""
        return [c for c in self.all_creators if isinstance(c, IPluginCreator)]

    @quiet(False)
    def register_creator(self, creator: IPluginCreatorInterface, plugin_namespace: str = "") -> bool:
        """Register a creator in this namespace; returns True.

        Errors: AR821, a creator of this name, version and namespace is registered; AR822, it has no name."""
        if not isinstance(creator, IPluginCreatorInterface):
            raise wrong_type("register_creator", creator, "an IPluginCreatorInterface", "make one: Creator()")
        namespace = _text(plugin_namespace, "register_creator: plugin_namespace")
        key = (*_who(creator), namespace)
        where = f"register_creator({shown(key)})"
        with self._lock:
            registered = self._creators.get(key)
            if registered is creator:
                return True
            if registered is not None:
                raise _taken(where, creator)
            if _namespace(creator) != namespace:
                called = f"{type(creator).__name__}.plugin_namespace"
                call_function(where, called, lambda: setattr(creator, "plugin_namespace", namespace))
            self._creators[key] = creator
        return True

    @quiet(False)
    def deregister_creator(self, creator: IPluginCreatorInterface) -> bool:
        """Remove a creator from the registry; AR823 if it is not registered."""
        if not isinstance(creator, IPluginCreatorInterface):
            raise wrong_type("deregister_creator", creator, "an IPluginCreatorInterface")
        with self._lock:
            keys = [key for key, x in self._creators.items() if x is creator]
            for key in keys:
                del self._creators[key]
        if not keys:
            got, do = f"a {type(creator).__name__} that is not registered", "register it first"
            raise PluginError("AR823", "deregister_creator", got, "a registered creator", do)
        return True

    def get_creator(
        self, type: str, version: str, plugin_namespace: str = ""
    ) -> IPluginCreatorInterface | None:
        """The creator of this name, version and namespace; None if there is none."""
        key = (
            _text(type, "get_creator: type"),
            _text(version, "get_creator: version"),
            _text(plugin_namespace, "get_creator: plugin_namespace"),
        )
        with self._lock:
            return self._creators.get(key)

    def get_plugin_creator(
        self, type: str, version: str, plugin_namespace: str = ""
    ) -> IPluginCreator | None:
        """The creator of plug-ins of version 2 with this name, version and namespace; None if there is
        none."""
        creator = self.get_creator(type, version, plugin_namespace)
        return creator if isinstance(creator, IPluginCreator) else nothing()

    @quiet(None)
    def load_library(self, plugin_path: str) -> Library:
        """Register the creators in a Python file, which defines creator classes, or in a shared object with a
        table (anyrt_plugin.h). Returns a handle for `deregister_library`.

        Errors: AR826, another kind of file, a library of NVIDIA or an invalid table; AR821, a registered
        name."""
        library = load(_text(plugin_path, "load_library"))
        done: list[IPluginCreatorInterface] = []
        try:
            for creator in library.creators:
                if self.get_creator(*_who(creator), _namespace(creator)) is not None:
                    raise _taken(f"{library.path}: {shown((*_who(creator), _namespace(creator)))}", creator)
                self.register_creator(creator, _namespace(creator))
                done.append(creator)
        except AnyrtError:
            for creator in done:
                self.deregister_creator(creator)
            raise
        self._libraries.append(library)
        return library

    @quiet(None)
    def deregister_library(self, handle: Library) -> None:
        """Undo `load_library`: remove its creators from the registry. Existing plug-ins continue to work, and
        loaded code stays in memory."""
        if not isinstance(handle, Library):
            raise wrong_type("deregister_library", handle, "the result of load_library")
        if handle not in self._libraries:
            got, do = f"{handle.path}, which is not loaded", "load it first"
            raise PluginError("AR823", "deregister_library", got, "a loaded library", do)
        self._libraries.remove(handle)
        for creator in handle.creators:
            if creator in self.all_creators:
                self.deregister_creator(creator)

    @quiet(None)
    def acquire_plugin_resource(self, key: str, resource: IPluginResource) -> IPluginResource:
        """The shared object of a key: a clone of `resource` at the first call, the same clone afterwards."""
        if not isinstance(resource, IPluginResource):
            raise wrong_type("acquire_plugin_resource", resource, "an IPluginResource")
        name = _text(key, "acquire_plugin_resource: key")
        with self._lock:
            held, count = self._resources.get(name, (None, 0))
            if held is None:
                held = call_method(f"acquire_plugin_resource({name!r})", resource, "clone")
                if not isinstance(held, IPluginResource):
                    got = f"{type(held).__name__} from {type(resource).__name__}.clone"
                    raise PluginError(
                        "AR822", f"acquire_plugin_resource({name!r})", got, "an IPluginResource"
                    )
            self._resources[name] = held, count + 1
        return held

    @quiet(-1)
    def release_plugin_resource(self, key: str) -> int:
        """Release an acquired resource; the last release frees it. Returns 0, or −1 with AR823 for an unknown
        key."""
        name = _text(key, "release_plugin_resource: key")
        with self._lock:
            if name not in self._resources:
                got, do = f"{name!r}, which is not acquired", "acquire it first"
                raise PluginError("AR823", "release_plugin_resource", got, "an acquired key", do)
            held, count = self._resources.pop(name)
            if count > 1:
                self._resources[name] = held, count - 1
                return 0
        call_method(f"release_plugin_resource({name!r})", held, "release")
        return 0


def keys_of(registry: IPluginRegistry) -> list[Key]:
    """Name, version and namespace of every creator."""
    return list(registry._creators)


def _text(x: object, where: str) -> str:
    if not isinstance(x, str | FallbackString):
        raise wrong_type(where, x, "a str")
    return checked_text(str(x), where)


def _attribute(creator: object, name: str) -> str:
    """An attribute of a creator, which may be a property that raises."""
    kind = type(creator).__name__
    return checked_text(str(call_function(kind, f"{kind}.{name}", lambda: getattr(creator, name, ""))), kind)


def _who(creator: object) -> tuple[str, str]:
    """Name and version of a creator."""
    name, version = (_attribute(creator, x) for x in ("name", "plugin_version"))
    if not name:
        do = "set self.name and self.plugin_version in its __init__"
        raise PluginError("AR822", type(creator).__name__, "no name", "a name", do)
    return name, version


def _taken(where: str, creator: object) -> PluginError:
    """The error for a creator whose name, version and namespace are registered."""
    return PluginError(
        "AR821", where, f"a second {type(creator).__name__}", "a unique name, version and namespace"
    )


def _namespace(creator: object) -> str:
    return _attribute(creator, "plugin_namespace")


def shown(key: Key) -> str:
    """A plug-in's name, version and namespace in a message."""
    name, version, namespace = key
    return f"{name!r}, version {version!r}" + (f", namespace {namespace!r}" if namespace else "")


_REGISTRY = IPluginRegistry()


def the_registry() -> IPluginRegistry:
    """The registry of this process."""
    return _REGISTRY
