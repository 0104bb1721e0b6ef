"""A runtime for KServe: a model for its server, and a command that starts the server.

python -m anyrt.integrations.kserve --model_name faces --model_dir /mnt/models --threads 2
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kserve
import numpy as np
from kserve.errors import InvalidInput
from kserve.utils.numpy_codec import from_np_dtype

from anyrt.core.errors import AnyrtError, ArgumentError
from anyrt.integrations.columns import Array, client_dtype, protocol_type, served
from anyrt.onnx.predictor import Predictor
from anyrt.onnx.session import Port

FILES = ("model.plan", "model.onnx")


class Model(kserve.Model):  # type: ignore[misc]
    """Serves version 2 of the protocol, and version 1 for models with one input, with a predictor."""

    def __init__(self, name: str, predictor: Predictor) -> None:
        super().__init__(name)
        self._predictor = predictor

    def load(self) -> bool:
        """Open the model. Raises the errors of `Predictor`."""
        self._predictor.metadata()
        self.ready = True
        return self.ready

    def get_input_types(self) -> list[dict[str, object]]:
        """The names, types and shapes of the inputs, for the metadata of the model."""
        return _described(self._predictor.metadata().inputs)

    def get_output_types(self) -> list[dict[str, object]]:
        """The names, types and shapes of the outputs, for the metadata of the model."""
        return _described(self._predictor.metadata().outputs)

    async def predict(
        self, payload: Mapping[str, Any] | kserve.InferRequest, *_: object, **__: object
    ) -> dict[str, object] | kserve.InferResponse:
        """All outputs. The response to an invalid request has status 400."""
        try:
            results = await asyncio.to_thread(served, self._predictor, self._feeds(payload))
        except (AnyrtError, ValueError) as error:
            raise InvalidInput(str(error)) from error
        if not isinstance(payload, kserve.InferRequest):
            columns = {n: a.tolist() for n, a in results.items()}
            return {"predictions": columns.popitem()[1] if len(columns) == 1 else columns}
        outputs = [_encoded(n, a, payload.use_binary_outputs) for n, a in results.items()]
        return kserve.InferResponse(response_id=payload.id, model_name=self.name, infer_outputs=outputs)

    def _feeds(self, payload: Mapping[str, Any] | kserve.InferRequest) -> dict[str, Any]:
        if isinstance(payload, kserve.InferRequest):
            return {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
        ports = self._predictor.metadata().inputs
        if len(ports) != 1:
            raise ArgumentError(
                "AR304", self.name, f"{len(ports)} inputs", "one input, or version 2 of the protocol"
            )
        return {ports[0].name: np.asarray(payload["instances"]).astype(client_dtype(ports[0]))}


def _described(ports: tuple[Port, ...]) -> list[dict[str, object]]:
    return [{"name": p.name, "datatype": protocol_type(p), "shape": list(p.shape)} for p in ports]


def _encoded(name: str, array: Array, is_binary: bool) -> kserve.InferOutput:
    output = kserve.InferOutput(name, list(array.shape), from_np_dtype(array.dtype))
    output.set_data_from_numpy(array, binary_data=is_binary)
    return output


def main() -> None:
    """Serve the model of a folder until a signal stops the server. Options: those of KServe, and
    `--threads`."""
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("--model_dir", type=Path, required=True, help="folder with model.plan or model.onnx")
    parser.add_argument(
        "--threads", type=int, default=None, help="threads of one inference (default: those of the machine)"
    )
    args = parser.parse_args()
    places = [args.model_dir / name for name in FILES if (args.model_dir / name).is_file()]
    if not places:
        parser.error(f"{args.model_dir} has neither {' nor '.join(FILES)}")
    model = Model(args.model_name, Predictor(places[0], threads=args.threads))
    model.load()
    kserve.ModelServer().start([model])


if __name__ == "__main__":
    main()
