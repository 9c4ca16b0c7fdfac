"""The smoke tests by name: level, where the function is, one sentence. Needs no torch, so that `--list` is quick.

Order is the order of running; "late" tests run after all others of all devices, because they are slow to begin.
"""

from collections import namedtuple

Entry = namedtuple("Entry", "name level module function late sentence")


def _entry(name, level, where, sentence, late=False):
    module, function = where.split(":")
    return Entry(name, level, module, function, late, sentence)


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
    _entry("batch-norm", 1, "smoke_kernels:batch_norm", "batch normalisation, its gradients and running statistics"),
    _entry("layer-norm", 1, "smoke_kernels:layer_norm", "layer normalisation and its gradients"),
    _entry("softmax", 1, "smoke_kernels:softmax", "softmax, log-softmax and cross entropy with their gradients"),
    _entry("attention-math", 1, "smoke_attention:math", "scaled dot product attention, plain backend"),
    _entry("attention-flash", 1, "smoke_attention:flash", "the same, flash backend"),
    _entry("attention-efficient", 1, "smoke_attention:efficient", "the same, memory-efficient backend"),
    _entry("attention-cudnn", 1, "smoke_attention:cudnn", "the same, cuDNN backend"),
    _entry("autograd", 0, "smoke_basic:autograd", "gradients agree with numerical differences"),
    _entry("rng-repeat", 1, "smoke_random:repeat", "the same seed gives the same numbers, another seed others"),
    _entry("rng-known", 1, "smoke_random:known", "the generator gives the numbers of its published algorithm"),
    _entry("rng-distribution", 1, "smoke_random:distribution", "uniform, normal, integer and Bernoulli numbers are unbiased"),
    _entry("streams-events", 1, "smoke_basic:streams_events", "work on two streams keeps the order that events demand"),
    _entry("out-of-memory", 1, "smoke_basic:out_of_memory", "asking too much is an ordinary error, and the device works after it"),
    _entry("numpy-bridge", 0, "smoke_basic:numpy_bridge", "arrays and tensors share memory and values"),
    _entry("dataloader", 0, "smoke_loading:dataloader", "two worker processes deliver every sample once, in order"),
    _entry("torchvision-nms", 0, "smoke_loading:torchvision_nms", "torchvision's compiled nms keeps the right boxes"),
    _entry("torchvision-roi-align", 1, "smoke_loading:torchvision_roi_align", "torchvision's compiled roi_align is right"),
    _entry("torchvision-import", 1, "smoke_loading:torchvision_import", "`import torchvision` works", late=True),
)
