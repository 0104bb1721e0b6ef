"""A runtime for MLServer: model-settings.json names this class as the implementation.

{"name": "faces", "implementation": "anyrt.integrations.mlserver.Runtime",
 "parameters": {"uri": "model.onnx", "extra": {"threads": 2}}}
"""

from __future__ import annotations

import asyncio

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, ResponseOutput
from mlserver.utils import get_model_uri

from anyrt.core.errors import AnyrtError
from anyrt.integrations.columns import Array, protocol_type, served
from anyrt.onnx.predictor import Predictor
from anyrt.onnx.session import Port


class Runtime(MLModel):  # type: ignore[misc]
    """The model at `parameters.uri`: a file, or a folder with model.onnx or model.plan.

    `parameters.extra` has the options of `Predictor`: profiles, precision, threads, contexts."""

    async def load(self) -> bool:
        """Open the model. Raises the errors of `Predictor`."""
        place = await get_model_uri(self.settings, ["model.onnx", "model.plan"])
        options = (self.settings.parameters and self.settings.parameters.extra) or {}
        self._predictor = Predictor(place, **options)
        metadata = await asyncio.to_thread(self._predictor.metadata)
        self.inputs, self.outputs = map(_described, (metadata.inputs, metadata.outputs))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The requested outputs, by default all. The response to an invalid request has status 400."""
        try:
            feeds = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
            results = await asyncio.to_thread(served, self._predictor, feeds)
            asked = [o.name for o in payload.outputs or ()] or list(results)
            outputs = [_encoded(name, results[name]) for name in asked]
        except (AnyrtError, ValueError, KeyError) as error:
            raise InferenceError(str(error)) from error
        return InferenceResponse(
            id=payload.id, model_name=self.name, model_version=self.version, outputs=outputs
        )

    async def unload(self) -> bool:
        """Release the engine when all running requests are complete."""
        self._predictor.close()
        return True


def _described(ports: tuple[Port, ...]) -> list[MetadataTensor]:
    return [MetadataTensor(name=p.name, datatype=protocol_type(p), shape=list(p.shape)) for p in ports]


def _encoded(name: str, array: Array) -> ResponseOutput:
    output = NumpyCodec.encode_output(name, array)
    output.shape = list(array.shape)  # MLServer adds an axis to vectors
    return output
