"""The smoke tests by name: level, where the function is, one sentence. Needs no torch, so that `--list` is quick.

Order is the order of running. `once` names a kind of device ("cpu", "cuda", "any"): the test runs on the first device of
that kind only, and after all others. `kills`: the device context is dead afterwards, as it must be. `patience`: how many
times the usual limit it may take.
"""

from collections import namedtuple

Entry = namedtuple("Entry", "name level module function sentence once kills patience")


def _entry(name, level, where, sentence, once="", kills=False, patience=1):
    module, function = where.split(":")
    return Entry(name, level, module, function, sentence, once, kills, patience)


CATALOGUE = (
    _entry("arithmetic", 0, "smoke_basic:arithmetic", "tensors are made, added, multiplied, divided, compared"),
    _entry("copy-pageable", 1, "smoke_basic:copy_pageable", "bytes survive the way to the device and back"),
    _entry("copy-pinned", 1, "smoke_basic:copy_pinned", "the same through page-locked memory, asynchronously"),
    _entry("elementwise", 1, "smoke_basic:elementwise", "exp, log, sin, tanh, ... are right to a few units in the last place"),
    _entry("indexing", 1, "smoke_basic:indexing", "gather, scatter, sort, cumulative and whole sums of integers are exact"),
    _entry("matmul-fp32", 0, "smoke_kernels:matmul_fp32", "products and their gradients in true fp32 (TF32 off)"),
    _entry("matmul-tf32", 1, "smoke_kernels:matmul_tf32", "the same with TF32 allowed"),
    _entry("matmul-fp16", 1, "smoke_kernels:matmul_fp16", "the same in half precision"),
    _entry("matmul-bf16", 1, "smoke_kernels:matmul_bf16", "the same in bfloat16"),
    _entry("conv2d-fp32", 0, "smoke_kernels:conv2d_fp32", "convolution, forward and backward, in true fp32"),
    _entry("conv2d-tf32", 1, "smoke_kernels:conv2d_tf32", "the same with TF32 allowed"),
    _entry("conv2d-fp16", 1, "smoke_kernels:conv2d_fp16", "the same in half precision"),
    _entry("conv2d-bf16", 1, "smoke_kernels:conv2d_bf16", "the same in bfloat16"),
    _entry("batch-norm", 1, "smoke_norms:batch_norm", "batch normalisation, its gradients and running statistics"),
    _entry("layer-norm", 1, "smoke_norms:layer_norm", "layer normalisation and its gradients"),
    _entry("softmax", 1, "smoke_norms:softmax", "softmax, log-softmax and cross entropy with their gradients"),
    _entry("attention-math", 1, "smoke_attention:math", "scaled dot product attention, plain backend"),
    _entry("attention-flash", 1, "smoke_attention:flash", "the same, flash backend"),
    _entry("attention-efficient", 1, "smoke_attention:efficient", "the same, memory-efficient backend"),
    _entry("attention-cudnn", 1, "smoke_attention:cudnn", "the same, cuDNN backend"),
    _entry("autograd", 0, "smoke_runtime:autograd", "gradients agree with numerical differences"),
    _entry("rng-repeat", 1, "smoke_random:repeat", "the same seed gives the same numbers, another seed others"),
    _entry("rng-known", 1, "smoke_random:known", "the generator gives the numbers of its published algorithm"),
    _entry("rng-distribution", 1, "smoke_random:distribution", "uniform, normal, integer and Bernoulli numbers are unbiased"),
    _entry("streams-events", 1, "smoke_runtime:streams_events", "work on two streams keeps the order that events demand"),
    _entry("out-of-memory", 1, "smoke_runtime:out_of_memory", "asking too much is an ordinary error, and the device works after it"),
    _entry("numpy-bridge", 0, "smoke_runtime:numpy_bridge", "arrays and tensors share memory and values"),
    _entry("dataloader", 0, "smoke_loading:dataloader", "two worker processes deliver every sample once, in order"),
    _entry("torchvision-nms", 0, "smoke_loading:torchvision_nms", "torchvision's compiled nms keeps the right boxes"),
    _entry("torchvision-roi-align", 1, "smoke_loading:torchvision_roi_align", "torchvision's compiled roi_align is right"),
    _entry("matmul-large", 2, "smoke_linear:matmul_large", "large products, checked by multiplying with vectors"),
    _entry("fft", 2, "smoke_linear:fft", "Fourier transforms of sizes with small and large factors"),
    _entry("solve", 2, "smoke_linear:solve", "linear systems and Cholesky factors"),
    _entry("svd", 2, "smoke_linear:svd", "singular values and vectors, eigenvalues, QR"),
    _entry("sparse", 2, "smoke_linear:sparse", "sparse times dense, in coordinate and compressed rows"),
    _entry("complex", 2, "smoke_linear:complex_numbers", "complex products, exactly"),
    _entry("channels-last", 2, "smoke_training:channels_last", "convolution and pooling of images with channels last"),
    _entry("checkpoint", 2, "smoke_training:checkpoint", "what is saved on the device is loaded unchanged, weights_only"),
    _entry("amp", 2, "smoke_training:amp", "autocast and GradScaler: unscale, clip, step; an infinity skips the step"),
    _entry("fp8", 2, "smoke_training:fp8", "all 8-bit floats, and products of them where the GPU has them"),
    _entry("compile", 2, "smoke_training:compiled", "torch.compile gives what eager gives", patience=5),
    _entry("cuda-graph", 2, "smoke_gpu:graph", "a recorded graph computes with new data"),
    _entry("runtime-kernel", 2, "smoke_gpu:runtime_kernel", "a kernel compiled at run time (NVRTC)"),
    _entry("device-assert", 2, "smoke_gpu:device_assert", "an index out of range is an error, not silence", kills=True),
    _entry("all-reduce", 2, "smoke_gpu:all_reduce_gloo", "two processes add up their tensors (gloo)", once="cpu", patience=2),
    _entry("peer-copies", 2, "smoke_gpu:peer_copies", "bytes survive the way from each GPU to each other", once="cuda"),
    _entry("nccl", 2, "smoke_gpu:all_reduce_nccl", "all GPUs add up their tensors (NCCL)", once="cuda"),
    _entry("memory", 3, "smoke_endurance:memory", "patterns over most of the free memory come back bit by bit", patience=3),
    _entry("products", 3, "smoke_endurance:products", "the same products at full load are the same bits for minutes", patience=3),
    _entry("products-together", 3, "smoke_endurance:products_together", "the same on all GPUs at once", once="cuda", patience=3),
    _entry("torchvision-import", 1, "smoke_loading:torchvision_import", "`import torchvision` works", once="any", patience=2),
)
