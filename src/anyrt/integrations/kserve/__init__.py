"""A runtime for KServe: a model for its server, which `python -m anyrt.integrations.kserve` starts."""

import kserve

from anyrt.integrations.protocol import datatype, described, predictions, rejecting, served
from anyrt.onnx.predictor import Predictor


class Model(kserve.Model):  # type: ignore[misc]
    """Serves version 2 of the protocol, and version 1 for models with one input, with a predictor."""

    def __init__(self, name: str, predictor: Predictor) -> None:
        super().__init__(name)
        self._predictor = predictor

    def load(self) -> bool:
        """Open the model. Raises the errors of `Predictor`."""
        self._predictor.metadata()
        return bool(super().load())

    def get_input_types(self) -> list[dict[str, object]]:
        """The names, types and shapes of the inputs, for the metadata of the model."""
        return described(self._predictor.metadata().inputs, dict)

    def get_output_types(self) -> list[dict[str, object]]:
        """The names, types and shapes of the outputs, for the metadata of the model."""
        return described(self._predictor.metadata().outputs, dict)

    async def predict(
        self, payload: kserve.InferRequest | dict[str, object], *_: object, **__: object
    ) -> object:
        """All outputs. The response to an invalid request has status 400."""
        with rejecting(kserve.errors.InvalidInput):
            if not isinstance(payload, kserve.InferRequest):
                return await predictions(self.name, self._predictor, payload)
            results = await served(self._predictor, {t.name: t.as_numpy() for t in payload.inputs})
        outputs = [kserve.InferOutput(n, list(a.shape), datatype(a.dtype)) for n, a in results.items()]
        for output in outputs:
            output.set_data_from_numpy(results[output.name], binary_data=payload.use_binary_outputs)
        return kserve.InferResponse(payload.id, self.name, outputs)
