"""The `add_*` methods that have no operator yet, as data; each becomes a stub that says so.

An operator's record replaces its line here by being there; a line whose method has an operator is ignored.
"""

from __future__ import annotations

import ast
import inspect

SIGNATURES = """
add_assertion(condition: ITensor, message: str) -> IAssertionLayer
add_attention(query: ITensor, key: ITensor, value: ITensor, norm_op: AttentionNormalizationOp, causal: bool) -> IAttention
add_attention_v2(query: ITensor, key: ITensor, value: ITensor, norm_op: AttentionNormalizationOp, causal_kind: CausalMaskKind) -> IAttention
add_convolution_nd(input: ITensor, num_output_maps: int, kernel_shape: Dims, kernel: Weights, bias: Weights = None) -> IConvolutionLayer
add_cumulative(input: ITensor, axis: ITensor, op: CumulativeOperation, exclusive: bool, reverse: bool) -> ICumulativeLayer
add_deconvolution_nd(input: ITensor, num_output_maps: int, kernel_shape: Dims, kernel: Weights, bias: Weights = None) -> IDeconvolutionLayer
add_dequantize(input: ITensor, scale: ITensor, output_type: DataType = None) -> IDequantizeLayer
add_dist_collective(input: ITensor, dist_collective_op: CollectiveOperation, reduce_op: ReduceOperation, root: int, groups: Sequence[int]) -> IDistCollectiveLayer
add_dynamic_quantize(input: ITensor, axis: int, block_size: int, output_type: DataType, scale_type: DataType) -> IDynamicQuantizeLayer
add_dynamic_quantize_v2(input: ITensor, block_shape: Dims, output_type: DataType, scale_type: DataType) -> IDynamicQuantizeLayer
add_einsum(inputs: list, equation: str) -> IEinsumLayer
add_fill(shape: Dims, op: FillOperation, output_type: DataType = None) -> IFillLayer
add_gather(input: ITensor, indices: ITensor, axis: int) -> IGatherLayer
add_gather_v2(input: ITensor, indices: ITensor, mode: GatherMode) -> IGatherLayer
add_grid_sample(input: ITensor, grid: ITensor) -> IGridSampleLayer
add_if_conditional() -> IIfConditional
add_kv_cache_update(cache: ITensor, update: ITensor, write_indices: ITensor, cache_mode: KVCacheMode) -> IKVCacheUpdateLayer
add_loop() -> ILoop
add_lrn(input: ITensor, window: int, alpha: float, beta: float, k: float) -> ILRNLayer
add_matrix_multiply(input0: ITensor, op0: MatrixOperation, input1: ITensor, op1: MatrixOperation) -> IMatrixMultiplyLayer
add_moe(hidden_states: ITensor, selected_experts_for_tokens: ITensor, scores_for_selected_experts: ITensor) -> IMoELayer
add_nms(boxes: ITensor, scores: ITensor, max_output_boxes_per_class: ITensor, indices_type: DataType = None) -> INMSLayer
add_non_zero(input: ITensor, indices_type: DataType = None) -> INonZeroLayer
add_one_hot(indices: ITensor, values: ITensor, depth: ITensor, axis: int) -> IOneHotLayer
add_parametric_relu(input: ITensor, slopes: ITensor) -> IParametricReLULayer
add_plugin(func: object, aot: bool = None) -> IPluginV3Layer
add_plugin_v2(inputs: list, plugin: object) -> IPluginV2Layer
add_plugin_v3(inputs: list, shape_inputs: list, plugin: object) -> IPluginV3Layer
add_pooling_nd(input: ITensor, type: PoolingType, window_size: Dims) -> IPoolingLayer
add_quantize(input: ITensor, scale: ITensor, output_type: DataType = None) -> IQuantizeLayer
add_ragged_softmax(input: ITensor, bounds: ITensor) -> IRaggedSoftMaxLayer
add_reverse_sequence(input: ITensor, sequence_lens: ITensor) -> IReverseSequenceLayer
add_rotary_embedding(input: ITensor, cos_cache: ITensor, sin_cache: ITensor, interleaved: bool, rotary_embedding_dim: int) -> IRotaryEmbeddingLayer
add_scatter(data: ITensor, indices: ITensor, updates: ITensor, mode: ScatterMode) -> IScatterLayer
add_softmax(input: ITensor) -> ISoftMaxLayer
add_topk(input: ITensor, op: TopKOperation, k: int, axes: int, indices_type: DataType = None) -> ITopKLayer
"""  # noqa: E501  # one method a line, so that a line can be struck out when its operator comes


# What may be given where the table above names a class.
GIVEN = {
    "Dims": "Dims | Sequence[int]",
    "Weights": "Weights | NDArray[Any]",
    "list": "Sequence[ITensor]",
}


def signatures() -> dict[str, inspect.Signature]:
    """The signature of each method, without `self`."""
    return dict(map(_parse, SIGNATURES.strip().splitlines()))


def _parse(line: str) -> tuple[str, inspect.Signature]:
    tree = ast.parse(f"def {line}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef), f"not a signature: {line}"
    assert tree.returns is not None, f"no result: {line}"
    names, defaults = tree.args.args, len(tree.args.defaults)
    parameters = [
        inspect.Parameter(
            a.arg,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=_given(a.annotation, optional) if a.annotation else inspect.Parameter.empty,
            default=None if optional else inspect.Parameter.empty,
        )
        for i, a in enumerate(names)
        for optional in (i >= len(names) - defaults,)
    ]
    return tree.name, inspect.Signature(parameters, return_annotation=ast.unparse(tree.returns))


def _given(annotation: ast.expr, optional: bool) -> str:
    text = ast.unparse(annotation)
    return GIVEN.get(text, text) + " | None" * optional


CLASSES = frozenset(str(s.return_annotation) for s in signatures().values())
