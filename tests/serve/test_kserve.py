"""KServe's own client with a server, over HTTP and over gRPC."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("granian", reason="the extra serve is not installed: make programs runs this")
kserve = pytest.importorskip("kserve", reason="KServe is not installed: make engines runs this")
client = pytest.importorskip("kserve.inference_client", reason="KServe's client is not installed")

pytestmark = [pytest.mark.programs, pytest.mark.filterwarnings("ignore")]
X = np.float32([[1, -2, 3]])


def request(is_binary):
    tensor = kserve.InferInput("x", [1, 3], "FP32")
    tensor.set_data_from_numpy(X, binary_data=is_binary)
    return kserve.InferRequest("neg", [tensor], request_id="7")


@pytest.mark.parametrize("is_binary", [False, True])
def test_over_http(serving, neg, is_binary):
    server = serving(neg)

    async def ask():
        rest = kserve.InferenceRESTClient(config=kserve.RESTConfig(protocol="v2"))
        base = server.url("")
        healthy = [await rest.is_server_live(base), await rest.is_server_ready(base)]
        healthy.append(await rest.is_model_ready(base, "neg"))
        answer = await rest.infer(base, request(is_binary), model_name="neg")
        await rest.close()
        return healthy, answer

    healthy, answer = asyncio.run(ask())
    assert healthy == [True] * 3
    np.testing.assert_array_equal(answer.outputs[0].as_numpy(), -X)


def test_over_grpc(serving, neg):
    server = serving(neg)

    async def ask():
        rpc = client.InferenceGRPCClient(f"127.0.0.1:{server.grpc}")
        healthy = [await rpc.is_server_live(), await rpc.is_server_ready(), await rpc.is_model_ready("neg")]
        answer = await rpc.infer(request(True))
        await rpc.close()
        return healthy, answer

    healthy, answer = asyncio.run(ask())
    assert healthy == [True] * 3
    np.testing.assert_array_equal(answer.outputs[0].as_numpy(), -X)
