"""The registry: creators by name, version and namespace; shared resources; Python files with creators."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import PluginError
from tests.messages import diagnostic

FILE = """
import anyrt as trt

class Creator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version = "FromFile", "1"
"""


class Creator(trt.IPluginCreatorV3One):
    def __init__(self, name="Pad", version="1"):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = name, version, ""
        self.field_names = trt.PluginFieldCollection([trt.PluginField("pads", np.array([]))])


class Old(trt.IPluginCreator):
    def __init__(self):
        trt.IPluginCreator.__init__(self)
        self.name, self.plugin_version = "Old", "1"


class Counter(trt.IPluginResource):
    def __init__(self):
        trt.IPluginResource.__init__(self)
        self.released = 0

    def clone(self):
        return self

    def release(self):
        self.released += 1


def test_a_creator_is_found_by_name_version_and_namespace(registry):
    creator = Creator()
    assert registry.register_creator(creator, "mine")
    assert registry.get_creator("Pad", "1", "mine") is creator
    assert creator.plugin_namespace == "mine"
    assert [registry.get_creator(*k) for k in (("Pad", "1"), ("Pad", "2", "mine"), ("Pd", "1", "mine"))] == [
        None
    ] * 3


def test_creators_of_old_plugins_are_listed_separately(registry):
    old, new = Old(), Creator("New")
    assert registry.register_creator(old)
    assert registry.register_creator(new, "")
    assert registry.plugin_creator_list == [old]
    assert {*registry.all_creators} >= {old, new}
    assert (registry.get_plugin_creator("Old", "1"), registry.get_plugin_creator("New", "1", "")) == (
        old,
        None,
    )


def test_a_second_creator_of_a_name_is_rejected(registry, capsys):
    first = Creator()
    assert registry.register_creator(first)
    assert registry.register_creator(first)
    assert registry.register_creator(Creator()) is False
    assert "[AR821] register_creator('Pad', version '1')" in capsys.readouterr().out
    assert registry.get_creator("Pad", "1") is first


def test_a_creator_without_a_name_is_rejected(registry):
    with (
        trt.strict(),
        pytest.raises(PluginError, match=diagnostic("AR822", "Creator", "self.name", "self.plugin_version")),
    ):
        registry.register_creator(Creator(""))
    with pytest.raises(TypeError, match="IPluginCreatorInterface"):
        registry.register_creator(Creator)


def test_a_creator_whose_name_or_namespace_raises_is_rejected(registry):
    before = registry.all_creators
    for name, wrong in (("name", lambda self: 1 / 0), ("plugin_namespace", lambda self: "other")):
        kind = type("Mute", (Creator,), {name: property(wrong), "__init__": trt.IPluginCreatorV3One.__init__})
        instance = kind()
        instance.__dict__.update({"name": "Mute"} if name != "name" else {})
        with trt.strict(), pytest.raises(PluginError, match=f"AR824.*from Mute.{name}"):
            registry.register_creator(instance, "mine")
    with trt.strict(), pytest.raises(ValueError, match="AR405"):
        registry.register_creator(Creator(), "\ud800")
    assert registry.all_creators == before


def test_a_deregistered_creator_is_removed(registry):
    creator = Creator()
    registry.register_creator(creator)
    assert registry.deregister_creator(creator) is True
    assert registry.get_creator("Pad", "1") is None
    with trt.strict(), pytest.raises(PluginError, match="AR823"):
        registry.deregister_creator(creator)


def test_plugins_share_a_resource_until_the_last_release(registry):
    mine, other = Counter(), Counter()
    assert registry.acquire_plugin_resource("count", mine) is mine
    assert registry.acquire_plugin_resource("count", other) is mine
    assert (registry.release_plugin_resource("count"), mine.released) == (0, 0)
    assert (registry.release_plugin_resource("count"), mine.released) == (0, 1)
    with trt.strict(), pytest.raises(PluginError, match=r"AR823.*release_plugin_resource.*count"):
        registry.release_plugin_resource("count")


def test_a_resource_that_raises_is_logged_with_its_traceback(registry, capsys):
    broken = type("Broken", (trt.IPluginResource,), {"clone": lambda self: 1 / 0})()
    assert registry.acquire_plugin_resource("x", broken) is None
    text = capsys.readouterr().out
    assert "Traceback" in text
    assert "[AR824] acquire_plugin_resource('x')" in text
    assert "ZeroDivisionError: division by zero, from Broken.clone" in text


def test_creators_of_a_file_are_registered_and_deregistered_with_it(registry, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    handle = registry.load_library(str(path))
    assert registry.get_creator("FromFile", "1").name == "FromFile"
    registry.deregister_library(handle)
    assert registry.get_creator("FromFile", "1") is None


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("libnvinfer_plugin.so.10", "", diagnostic("AR826", "libnvinfer_plugin.so.10", "NVIDIA")),
        ("mine.py", "x = 1", diagnostic("AR826", "mine.py", "IPluginCreatorV3One")),
        ("mine.py", "1 / 0", diagnostic("AR824", "mine.py", "ZeroDivisionError")),
        ("mine.txt", "", diagnostic("AR826", "mine.txt", "'mine.txt'", ".py", ".so")),
    ],
)
def test_a_file_without_creators_for_this_machine_is_rejected(name, text, code, registry, tmp_path):
    (tmp_path / name).write_text(text)
    with trt.strict(), pytest.raises(PluginError, match=code):
        registry.load_library(str(tmp_path / name))


def test_a_library_whose_names_are_taken_registers_nothing(registry, tmp_path):
    second = FILE.split("\n\n", 1)[1].replace("Creator(", "Other(", 1).replace("FromFile", "Taken")
    (tmp_path / "two.py").write_text(f"{FILE}\n{second}")
    registry.register_creator(Creator("Taken"))
    with trt.strict(), pytest.raises(PluginError, match=r"AR821.*Taken"):
        registry.load_library(str(tmp_path / "two.py"))
    assert registry.get_creator("FromFile", "1") is None
