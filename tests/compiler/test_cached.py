"""The names under which compiled code is kept."""

import subprocess
import sys

from anyrt.compiler.cached import SOURCES


def test_every_folder_that_the_compiler_imports_is_in_the_name_of_its_code():
    program = (
        "import sys, anyrt.compiler.driver\n"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('anyrt.')})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= set(SOURCES)
