"""A runtime for MLServer: model-settings.json names this class as the implementation.

{"name": "faces", "implementation": "anyrt.integrations.mlserver.Runtime",
 "parameters": {"uri": "model.onnx", "extra": {"threads": 2}}}
"""

from mlserver import MLModel, codecs, errors, utils
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor

from anyrt.integrations.protocol import described, opened, rejecting, served
from anyrt.onnx.predictor import Predictor


class Runtime(MLModel):  # type: ignore[misc]
    """The model at `parameters.uri`: a file, or a folder with model.onnx or model.plan. `parameters.extra`
    has the options of `Predictor`: profiles, precision, threads, contexts."""

    async def load(self) -> bool:
        """Open the model. Raises the errors of `Predictor`."""
        place = await utils.get_model_uri(self.settings, ["model.onnx", "model.plan"])
        self._predictor = Predictor(place, **(self.settings.parameters.extra or {}))
        ports = await opened(self._predictor)
        self.inputs, self.outputs = (described(p, MetadataTensor) for p in (ports.inputs, ports.outputs))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The requested outputs, by default all. The response to an invalid request has status 400."""
        with rejecting(errors.InferenceError):
            feeds = {t.name: codecs.NumpyCodec.decode_input(t) for t in payload.inputs}
            arrays = await served(self._predictor, feeds)
            names = [o.name for o in payload.outputs or ()] or list(arrays)
            out = [codecs.NumpyCodec.encode_output(n, arrays[n]) for n in names]
        for tensor in out:
            tensor.shape = list(arrays[tensor.name].shape)  # the codec adds an axis to vectors
        return InferenceResponse(id=payload.id, model_name=self.name, model_version=self.version, outputs=out)

    async def unload(self) -> bool:
        """Release the engine when all running requests are complete."""
        self._predictor.close()
        return True
