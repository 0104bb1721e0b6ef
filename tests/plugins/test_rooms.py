"""All code of plug-ins is in one folder, which docs/architecture.md lists."""

import ast
import re
import sys
from pathlib import Path
from subprocess import check_output

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/anyrt"
ROOM = SOURCE / "api/plugins"


def modules(folder):
    """The entries of a folder, named as on the page."""
    result = (p for p in folder.iterdir() if p.name[:2] != "__")
    return {p.name if p.is_file() else f"{p.name}/" for p in result}


def test_the_page_lists_the_folder():
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.split("\n## Plug-ins\n")[1].split("\n## ")[0]
    cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    named = [name.removeprefix("api/plugins/") for name in named]
    assert len(named) == len(set(named))
    assert set(named) == modules(ROOM)


def test_no_other_file_has_plugin_in_its_name():
    results = {str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*plugin*") if ROOM not in (p, *p.parents)}
    assert {x for x in results if "__pycache__" not in x} == {
        "plugin",
        "plugin/anyrt_plugin.h",
        "prims/plugin.py",
    }


def test_the_public_module_only_imports_names():
    for path in (SOURCE / "plugin").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            assert is_all or is_text or isinstance(node, ast.ImportFrom), f"{path.name}: {ast.unparse(node)}"


def test_onnx_imports_plugins_by_name_only():
    texts = (p.read_text() for p in (SOURCE / "onnx").rglob("*.py"))
    assert {x for text in texts for x in re.findall(r"anyrt\.api\.plugins[.\w]*", text)} == {
        "anyrt.api.plugins.named"
    }


def test_standard_plugins_load_on_demand_and_without_onnx():
    program = (
        "import sys, anyrt as trt; trt.Builder(trt.Logger()); "
        "print('anyrt.api.plugins.standard' in sys.modules); "
        "assert trt.init_libnvinfer_plugins(None, ''); "
        "print('anyrt.api.plugins.standard' in sys.modules, 'onnx' in sys.modules)"
    )
    reported = check_output([sys.executable, "-c", program], text=True)
    assert reported.split() == ["False", "True", "False"]
