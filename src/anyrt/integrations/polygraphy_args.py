"""`polygraphy run model.onnx --anyrt`: the options, and their code in Polygraphy's script."""

from __future__ import annotations

import argparse

from polygraphy.tools.args import ModelArgs, OnnxLoadArgs
from polygraphy.tools.args import util as args_util
from polygraphy.tools.args.base import BaseArgs, BaseRunnerArgs
from polygraphy.tools.script import Script, make_invocable

HOME = "anyrt.integrations.polygraphy"


def arg_groups() -> list[BaseArgs]:
    """The argument groups for Polygraphy's entry point `polygraphy.run.plugins`."""
    return [AnyrtSessionArgs(), AnyrtRunnerArgs()]


class AnyrtSessionArgs(BaseArgs):  # type: ignore[misc]  # Polygraphy publishes no types
    """
    AnyRT Sessions: building a model with AnyRT.

    Depends on:

        - ModelArgs
        - OnnxLoadArgs
    """

    def add_parser_args_impl(self) -> None:
        """Add the options."""
        add = self.group.add_argument
        add("--anyrt-threads", type=int, default=None, help="Number of threads of the engine")
        help_ = "Report an out-of-bounds access of a kernel as an error"
        add("--anyrt-checked", action="store_true", default=None, help=help_)

    def parse_impl(self, args: argparse.Namespace) -> None:
        """Read the values of the options."""
        self.num_threads = args_util.get(args, "anyrt_threads")
        self.checked = args_util.get(args, "anyrt_checked")

    def add_to_script_impl(self, script: Script) -> object:
        """Add a loader of the session to the script."""
        onnx, arguments = self.arg_groups[OnnxLoadArgs], self.arg_groups[ModelArgs]
        is_read_here = arguments.model_type == "engine" or not onnx.must_use_onnx_loader()
        model = arguments.path if is_read_here else onnx.add_to_script(script, serialize_model=True)
        script.add_import(imports=["SessionFromModel"], frm=HOME)
        loader = make_invocable("SessionFromModel", model, num_threads=self.num_threads, checked=self.checked)
        return script.add_loader(loader, "build_anyrt_session")


class AnyrtRunnerArgs(BaseRunnerArgs):  # type: ignore[misc]  # as above
    """
    AnyRT Inference: running inference with AnyRT.

    Depends on:

        - AnyrtSessionArgs
    """

    def get_name_opt_impl(self) -> tuple[str, str]:
        """The name of the runner, and its option."""
        return "AnyRT", "anyrt"

    def add_to_script_impl(self, script: Script) -> None:
        """Add the runner to the script."""
        script.add_import(imports=["AnyrtRunner"], frm=HOME)
        session = self.arg_groups[AnyrtSessionArgs].add_to_script(script)
        script.add_runner(make_invocable("AnyrtRunner", session))
