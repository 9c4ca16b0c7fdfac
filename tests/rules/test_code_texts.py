"""Faults of the user's own code: what people pasted in public threads, re-typed and condensed, and the cause.

The id of each case names the thread. The wordings differ from era to era; the rule has to be the same, and the
finding has to say that the environment is not to blame.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import judge, left_alone, named, three_wordings


CASES = [
    # --- device-mismatch
    (
        "torch 0.4 to 1.4",
        "device-mismatch",
        "RuntimeError: Expected object of device type cuda but got device type cpu for argument #2 'mat1' in call to _th_addmm",
    ),
    (
        "torch 1.0",
        "device-mismatch",
        "RuntimeError: Expected object of backend CPU but got backend CUDA for argument #4 'mat1'",
    ),
    (
        "dlyldxwl/fssd.pytorch#12",
        "device-mismatch",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    (
        "glam-imperial/cider#6 (the other way round)",
        "device-mismatch",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ),
    ("MPS", "device-mismatch", "RuntimeError: Placeholder storage has not been allocated on MPS device!"),
    (
        "MPS, convolution",
        "device-mismatch",
        "RuntimeError: Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same",
    ),
    (
        "two GPUs",
        "device-mismatch",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!",
    ),
    (
        "DataParallel",
        "device-mismatch",
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu",
    ),
    (
        "an index",
        "device-mismatch",
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
    ("a generator", "device-mismatch", "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'"),
    (
        "NumPy",
        "device-mismatch",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    ),
    # --- hardcoded-cuda-device
    (
        "storyicon/comfyui_segment_anything#97",
        "hardcoded-cuda-device",
        'File "/Users/user/ComfyUI/execution.py", line 323, in execute\nRuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use torch.load',
    ),
    (
        "a GPU number that is not there",
        "hardcoded-cuda-device",
        "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages to an existing device.",
    ),
    (
        "intel/torch-xpu-ops#2024 (an XPU machine)",
        "hardcoded-cuda-device",
        "PyTorch version: 2.8.0+xpu\nOS: Ubuntu 22.04.5 LTS (x86_64)\nIs XPU available: True\nAssertionError: Torch not compiled with CUDA enabled",
    ),
    (
        "a Mac by its paths",
        "hardcoded-cuda-device",
        '  File "/opt/homebrew/lib/python3.11/site-packages/torch/cuda/__init__.py", line 239, in _lazy_init\nAssertionError: Torch not compiled with CUDA enabled',
    ),
    # --- shape-mismatch
    (
        "kevinzakka/recurrent-visual-attention#19 (2018)",
        "shape-mismatch",
        "RuntimeError: size mismatch, m1: [32 x 192], m2: [64 x 128] at /pytorch/aten/src/TH/generic/THTensorMath.c:2033",
    ),
    (
        "DecartAI/Lucy-Edit-ComfyUI#12",
        "shape-mismatch",
        "The size of tensor a (16) must match the size of tensor b (48) at non-singleton dimension 1",
    ),
    (
        "xinsir6/ControlNetPlus#88",
        "shape-mismatch",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x1536 and 2048x1280)",
    ),
    (
        "a convolution",
        "shape-mismatch",
        "RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[1, 1, 224, 224] to have 3 channels, but got 1 channels instead",
    ),
    (
        "a checkpoint",
        "shape-mismatch",
        "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tsize mismatch for fc.weight: copying a param with shape torch.Size([1000, 512]) from checkpoint, the shape in current model is torch.Size([10, 512]).",
    ),
    ("a view", "shape-mismatch", "RuntimeError: shape '[32, 512]' is invalid for input of size 12345"),
    (
        "a batch",
        "shape-mismatch",
        "RuntimeError: stack expects each tensor to be equal size, but got [3, 224, 224] at entry 0 and [3, 224, 300] at entry 1",
    ),
    ("a loss", "shape-mismatch", "ValueError: Expected input batch_size (32) to match target batch_size (64)."),
    ("an LSTM", "shape-mismatch", "RuntimeError: Expected hidden size (2, 20, 50), got [2, 10, 50]"),
    # --- dtype-mismatch
    (
        "LeapLabTHU/ACmix#15",
        "dtype-mismatch",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
    ),
    (
        "torch 2's names",
        "dtype-mismatch",
        "RuntimeError: Input type (float) and bias type (c10::Half) should be the same",
    ),
    ("a linear layer", "dtype-mismatch", "RuntimeError: expected scalar type Half but found Float"),
    (
        "labels",
        "dtype-mismatch",
        "RuntimeError: Expected object of scalar type Long but got scalar type Float for argument #2 'target' in call to _thnn_nll_loss_forward",
    ),
    ("half on the CPU", "dtype-mismatch", "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'"),
    ("an index", "dtype-mismatch", "IndexError: tensors used as indices must be long, byte or bool tensors"),
    (
        "float64 on MPS",
        "dtype-mismatch",
        "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.",
    ),
    ("double from NumPy", "dtype-mismatch", "RuntimeError: Found dtype Double but expected Float"),
    (
        "attention",
        "dtype-mismatch",
        "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: float and value.dtype: c10::Half instead.",
    ),
    (
        "torch 0.4",
        "dtype-mismatch",
        "RuntimeError: Expected object of type torch.LongTensor but found type torch.FloatTensor for argument #2 'target'",
    ),
    # --- inplace-autograd
    (
        "JDAI-CV/LIO#9",
        "inplace-autograd",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [10, 49]], which is output 0 of SubBackward0, is at version 1; expected version 0 instead.",
    ),
    (
        "a leaf",
        "inplace-autograd",
        "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
    ),
    (
        "a view of a leaf",
        "inplace-autograd",
        "RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.",
    ),
    (
        "a view",
        "inplace-autograd",
        "RuntimeError: Output 0 of UnbindBackward is a view and is being modified inplace. This view is the output of a function that returns multiple views.",
    ),
    # --- backward-twice, backward-without-graph, missing-no-grad, missing-eval-mode, ddp-unused-parameters
    (
        "torch 1",
        "backward-twice",
        "RuntimeError: Trying to backward through the graph a second time, but the saved intermediate results have already been freed. Specify retain_graph=True",
    ),
    (
        "torch 2",
        "backward-twice",
        "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed).",
    ),
    (
        "torch 1.9",
        "backward-twice",
        "RuntimeError: Trying to backward through the graph a second time (or directly access saved variables after they have already been freed).",
    ),
    (
        "no graph",
        "backward-without-graph",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    (
        "no graph, torch 0.4",
        "backward-without-graph",
        "RuntimeError: element 0 of variables does not require grad and does not have a grad_fn",
    ),
    (
        "no graph, in a trainer",
        "backward-without-graph",
        '  File "trainer.py", line 2560, in training_step\nRuntimeError: element 0 of tensors does not require grad and does not have a grad_fn',
    ),
    (
        "numpy of a graph",
        "missing-no-grad",
        "RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    ),
    (
        "numpy of a graph, 2018",
        "missing-no-grad",
        "RuntimeError: Can't call numpy() on Variable that requires grad. Use var.detach().numpy() instead.",
    ),
    (
        "numpy of a graph, plotting",
        "missing-no-grad",
        '  File "plot.py", line 12, in <module>\n    plt.plot(losses)\nRuntimeError: Can\'t call numpy() on Tensor that requires grad.',
    ),
    (
        "one sample",
        "missing-eval-mode",
        "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 512, 1, 1])",
    ),
    (
        "one sample, linear",
        "missing-eval-mode",
        "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 128])",
    ),
    (
        "instance norm",
        "missing-eval-mode",
        "ValueError: Expected more than 1 spatial element when training, got input size torch.Size([1, 512, 1, 1])",
    ),
    (
        "unused",
        "ddp-unused-parameters",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.",
    ),
    (
        "used twice",
        "ddp-unused-parameters",
        "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons",
    ),
    (
        "unused, index list",
        "ddp-unused-parameters",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.\nParameter indices which did not receive grad for rank 0: 160 161",
    ),
    # --- label-out-of-range
    (
        "isht7/pytorch-deeplab-resnet#19 (2017)",
        "label-out-of-range",
        "SpatialClassNLLCriterion.cu:40: void cunn_SpatialClassNLLCriterion_updateOutput_kernel(T *): block: [0,0,0], thread: [769,0,0] Assertion `t >= 0 && t < n_classes` failed.\ncuda runtime error (59) : device-side assert triggered",
    ),
    (
        "marius-team/marius#80",
        "label-out-of-range",
        "Loss.cu:455: nll_loss_backward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [12,0,0] Assertion `t >= 0 && t < n_classes` failed.",
    ),
    (
        "the assert alone",
        "label-out-of-range",
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call",
    ),
    ("on the CPU", "label-out-of-range", "IndexError: Target 10 is out of bounds."),
    ("an embedding on the CPU", "label-out-of-range", "IndexError: index out of range in self"),
    (
        "an embedding on the GPU",
        "label-out-of-range",
        "Indexing.cu:1237: indexSelectSmallIndex: block: [0,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
    ),
    (
        "binary cross entropy",
        "label-out-of-range",
        "Loss.cu:103: operator(): block: [0,0,0], thread: [1,0,0] Assertion `input_val >= zero && input_val <= one` failed.",
    ),
    ("one-hot", "label-out-of-range", "RuntimeError: Class values must be smaller than num_classes."),
    (
        "gather",
        "label-out-of-range",
        'IndexKernelUtils.cu:16: vectorized_gather_kernel: block: [2,0,0], thread: [32,0,0] Assertion `ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"` failed.',
    ),
    # --- dataloader-worker-main-guard, dataloader-not-picklable
    (
        "fxia22/pointnet.pytorch#64",
        "dataloader-worker-main-guard",
        "RuntimeError:\n        An attempt has been made to start a new process before the\n        current process has finished its bootstrapping phase.",
    ),
    (
        "pytorch/pytorch#31465 (the broken pipe of Windows)",
        "dataloader-worker-main-guard",
        '  File "E:\\\\env\\\\lib\\\\site-packages\\\\torch\\\\utils\\\\data\\\\dataloader.py", line 719, in __init__\n    w.start()\n  File "E:\\\\env\\\\lib\\\\multiprocessing\\\\reduction.py", line 60, in dump\n    ForkingPickler(file, protocol).dump(obj)\nBrokenPipeError: [Errno 32] Broken pipe',
    ),
    (
        "macOS, Python 3.8 and later",
        "dataloader-worker-main-guard",
        "  File \"/opt/miniconda3/lib/python3.9/multiprocessing/spawn.py\", line 134, in _check_not_importing_main\n    raise RuntimeError('''\nRuntimeError: \n        An attempt has been made to start a new process before the",
    ),
    (
        "a lambda",
        "dataloader-not-picklable",
        "AttributeError: Can't pickle local object 'get_loader.<locals>.<lambda>'",
    ),
    (
        "a notebook",
        "dataloader-not-picklable",
        "AttributeError: Can't get attribute 'MyDataset' on <module '__main__' (built-in)>",
    ),
    ("an open file", "dataloader-not-picklable", "TypeError: cannot pickle '_io.BufferedReader' object"),
    # --- nan-loss
    (
        "facebookresearch/fairseq#1529",
        "nan-loss",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
    ),
    (
        "csuhan/opendet2#29",
        "nan-loss",
        "FloatingPointError: Loss became infinite or NaN at iteration=166!\nloss_dict = {'loss_cls_ce': nan, 'loss_box_reg': nan}",
    ),
    (
        "Junjue-Wang/FactSeg#6",
        "nan-loss",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 2.0237e-320",
    ),
    ("a detector's loop", "nan-loss", "Loss is nan, stopping training\n{'loss_ce': tensor(nan, device='cuda:0')}"),
    ("transformers' log", "nan-loss", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 1.2e-05, 'epoch': 0.1}"),
    ("anomaly mode", "nan-loss", "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output."),
    ("sampling", "nan-loss", "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"),
    (
        "a progress bar",
        "nan-loss",
        "Epoch 3:  45%|####5     | 450/1000 [01:02<01:15,  7.25it/s, v_num=0, train_loss=nan]",
    ),
    # --- weights-only-load, checkpoint-damaged
    (
        "open-retina/open-retina#186",
        "weights-only-load",
        "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options\n\tWeightsUnpickler error: Unsupported global: GLOBAL omegaconf.listconfig.ListConfig was not an allowed global by default.",
    ),
    (
        "an operand",
        "weights-only-load",
        "_pickle.UnpicklingError: Weights only load failed.\nWeightsUnpickler error: Unsupported operand 149",
    ),
    (
        "0Xiaohei0/LocalAIVtuber#51",
        "weights-only-load",
        "raise pickle.UnpicklingError(_get_wo_message(str(e))) from None\n_pickle.UnpicklingError: Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will likely succeed",
    ),
    (
        "half a zip",
        "checkpoint-damaged",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    ),
    ("a Git LFS pointer", "checkpoint-damaged", "_pickle.UnpicklingError: invalid load key, 'v'."),
    (
        "safetensors",
        "checkpoint-damaged",
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    ),
    (
        "an old file cut off",
        "checkpoint-damaged",
        "RuntimeError: unexpected EOF, expected 2564384 more bytes. The file might be corrupted.",
    ),
    # --- loss-flat
    (
        "ten classes",
        "loss-flat",
        "epoch 1 loss 2.3026\nepoch 2 loss 2.3025\nepoch 3 loss 2.3026\nepoch 4 loss 2.3026\nepoch 5 loss 2.3027",
    ),
    (
        "two classes",
        "loss-flat",
        "[1] train loss: 0.6931\n[2] train loss: 0.6931\n[3] train loss: 0.6932\n[4] train loss: 0.6931",
    ),
    (
        "a thousand classes",
        "loss-flat",
        "step 10 | loss=6.9078 | lr 0.1\nstep 20 | loss=6.9079 | lr 0.1\nstep 30 | loss=6.9077 | lr 0.1\nstep 40 | loss=6.9078 | lr 0.1",
    ),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in CASES], ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_the_cause_is_named_first(rule: str, text: str) -> None:
    first = named(text, rule)
    if first.area == "code":
        assert "environment is fine" in first.why


def test_every_cause_has_three_wordings() -> None:
    three_wordings(rule for _, rule, _ in CASES)


NEAR = [
    (
        "AMP's first steps",
        "nan-loss",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    ),
    ("a word", "nan-loss", "loss: 0.0123 nanoseconds: 12"),
    ("a metric", "nan-loss", "INFO finance loss banana"),
    ("a falling loss", "loss-flat", "loss 2.3026\nloss 2.1011\nloss 1.9011\nloss 1.5001\nloss 1.2001"),
    (
        "a Mac has no CUDA and asks for none",
        "hardcoded-cuda-device",
        "OS: macOS 14.5 (arm64)\nPyTorch version: 2.4.0\nIs CUDA available: False",
    ),
    (
        "a build without CUDA beside an NVIDIA GPU",
        "hardcoded-cuda-device",
        "OS: Ubuntu 22.04\nPyTorch version: 2.4.0+cpu\nGPU 0: NVIDIA GeForce RTX 3090\nNvidia driver version: 550.54.14\nRuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
    ),
    (
        "one kind of input",
        "device-mismatch",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
    ),
    (
        "devices, not dtypes",
        "dtype-mismatch",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    ("MPS lacks the kernel", "dtype-mismatch", "NotImplementedError: \"foo_mps\" not implemented for 'MPS'"),
    ("BrokenPipe of a shell", "dataloader-worker-main-guard", "BrokenPipeError: [Errno 32] Broken pipe\n| head"),
    ("a list index", "label-out-of-range", "IndexError: list index out of range"),
    ("pickle of something else", "checkpoint-damaged", "EOFError: EOF when reading a line"),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in NEAR], ids=[f"{c[1]}: {c[0]}" for c in NEAR])
def test_a_near_miss_is_left_alone(rule: str, text: str) -> None:
    left_alone(text, rule)


LOOP = """for epoch in range(10):
    for x, y in loader:
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
"""


def test_a_pasted_loop_without_zero_grad_is_noted() -> None:
    found = [f for f in judge(LOOP).findings if f.rule == "missing-zero-grad"]
    assert [f.severity for f in found] == ["note"]


@pytest.mark.parametrize(
    "text",
    [
        LOOP.replace("        out =", "        optimizer.zero_grad()\n        out ="),
        'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    loss.backward()\nRuntimeError: x',
        "loss.backward()",
    ],
    ids=["with it", "a traceback", "one line"],
)
def test_other_code_is_not(text: str) -> None:
    assert "missing-zero-grad" not in {f.rule for f in judge(text).findings}


def test_a_pasted_evaluation_without_no_grad_is_noted() -> None:
    code = "def evaluate(loader):\n    for x, y in loader:\n        out = model(x.cuda())\n        loss = criterion(out, y)\n"
    assert "missing-no-grad" in {f.rule for f in judge(code).findings}
    assert "missing-no-grad" not in {
        f.rule for f in judge("model.eval()\n" + code.replace("    for", "    model.eval()\n    for")).findings
    }
