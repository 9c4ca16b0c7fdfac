"""Known error texts of the user's own code: devices, shapes, dtypes, autograd, labels, workers, checkpoints.

Wordings follow torch's checks from 0.4 to the newest release; older ones stand beside newer ones of the same meaning.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature

_TYPE = r"torch\.(?:(?:cuda|mps|xpu)\.)?\w+Tensor|MPS\w+Type|CUDA\w+Type|CPU\w+Type|XPU\w+Type"

_DEVICE = (
    Signature(
        "device-mismatch",
        (
            "to be on the same device",
            "on different gpus",
            "for argument #",
            "is on cpu, but expected",
            "not on the expected device",
            "should be the same",
            "placeholder storage has not been allocated on mps",
            "indices should be either on",
            "expected all tensors to be on",
            "tensor for 'out' to have",
            "but got device",
            "expected a 'cuda' device type for generator",
            "expected a 'cpu' device type for generator",
            "module must have its parameters and buffers on device",
            "passed cpu tensor",
            "is on device",
            "arguments are located on different gpus",
            "input is not on cuda",
            "tensors to be on",
        ),
        r"Expected all tensors to be on the same device"
        r"|Expected (?:object|tensor)[^\n]{0,60}(?:device type|backend) \w+[^\n]{0,40}but got (?:device "
        r"type|backend) \w+"
        r"|Tensor for (?:argument #\d+ )?'?\w+'? is on (?:cpu|cuda\S*|mps\S*|xpu\S*)[^\n]{0,10}but expected"
        r"|Tensor for argument #\d+ '\w+' is on \w+, but expected (?:it|them) to be on \w+"
        r"|arguments are located on different GPUs|Input and \w+ tensors are not (?:at|on) the same device"
        r"|not on the expected device"
        r"|Placeholder storage has not been allocated on MPS device"
        r"|indices should be either on \w+ or on the same device as the indexed tensor"
        r"|Expected a '\w+' device type for generator but found '\w+'"
        r"|module must have its parameters and buffers on device \S+ \(device_ids\[0\]\) but found one"
        r"|Expected object of type torch\.cuda\.\w+ but found type torch\.(?!cuda)\w+"
        r"|Expected object of type torch\.(?!cuda)\w+ but found type torch\.cuda\.\w+"
        r"|Input type \((?:torch\.cuda\.|MPS|CUDA|XPU)\w+\) and weight type \((?:torch\.(?!cuda)"
        r"|CPU)\w+\) should be the same"
        r"|Input type \((?:torch\.(?!cuda)|CPU)\w+\) and weight type \((?:torch\.cuda\.|MPS|CUDA|XPU"
        r"|torch\.mps\.|torch\.xpu\.)\w+\) should be the same"
        r"|Input type \((?:torch\.cuda\.|MPS|CUDA|XPU|torch\.mps\.|torch\.xpu\.)\w+\) and (?:weight|bias) "
        r"type \(torch\.(?!cuda|mps|xpu)\w+\) should be the same"
        r"|expected device (?:cuda|cpu)\S* but got device (?:cuda|cpu)\S*",
    ),
    Signature(
        "numpy-of-device-tensor",
        ("device type tensor to numpy", "cuda tensor to numpy", "convert cuda tensor"),
        r"can't convert (?:CUDA|cuda|xpu|mps)\S* (?:device type )?tensor to numpy",
    ),
    Signature(
        "cuda-checkpoint",
        ("attempting to deserialize object on",),
        r"Attempting to deserialize object on (?:a )?(?P<device>CUDA|MPS|XPU) device(?: (?P<index>\d+))? but"
        r" torch\.(?:cuda|backends\.mps|mps|xpu)\.(?P<test>is_available|device_count)",
    ),
    Signature(
        "cuda-not-compiled",
        ("torch not compiled with cuda enabled",),
        r"(?:(?P<mac>/Users/|/opt/homebrew/|darwin|macos|MacBook)[\s\S]*)?Torch not compiled with CUDA enabled",
        before=40,
        after=2,
    ),
)

_SHAPE = (
    Signature(
        "shape-mismatch",
        (
            "shapes cannot be multiplied",
            "size mismatch, ",
            "size mismatch (got",
            "must match the size of tensor",
            "sizes of tensors must match",
            "is invalid for input of size",
            "to match target batch_size",
            "-dimensional weight",
            "expected input[",
            "copying a param with shape",
            "in loading state_dict",
            "is different to the input size",
            "stack expects each tensor to be equal size",
            "greater than actual input size",
            "must match the existing size",
            "dimension out of range",
            "view size is not compatible",
            "must match except in dimension",
            "match the broadcast shape",
            "running_mean should contain",
            "must be equal to input_size",
            "expected hidden",
            "only batches of spatial targets",
            "operands do not broadcast",
            "batch1 and batch2",
            "number of sizes provided",
            "dim 1 must match",
            "expected 3d (unbatched)",
            "expected 2d or 3d",
            "the shape of the mask",
            "multi-target not supported",
            "expected target size",
            "inconsistent tensor size",
            "invalid argument 0: sizes of tensors",
            "shape mismatch: ",
            "broadcastable to shape",
            "selected index k out of range",
        ),
        r"mat1 and mat2 shapes cannot be multiplied \((?P<shapes>[\dx]+ and [\dx]+)\)"
        r"|size mismatch, m1: \[(?P<m1>[^\]\n]{1,40})\], m2: \[(?P<m2>[^\]\n]{1,40})\]|size mismatch, "
        r"(?:get|got)|size mismatch \(got"
        r"|The size of tensor a \((?P<a>\d+)\) must match the size of tensor b \((?P<b>\d+)\) at "
        r"non-singleton dimension \d+"
        r"|Sizes of tensors must match except in dimension|shape '\[[^\]\n]{0,80}\]' is invalid for input of size \d+"
        r"|Expected input batch_size \(\d+\) to match target batch_size \(\d+\)"
        r"|Expected \d(?:D \(unbatched\)|-dimensional| or|D)[^\n]{0,160}(?:but )?got|expected "
        r"input\[[^\]\n]{0,60}\] to have \d+ channels, but got \d+"
        r"|copying a param with shape|Error\(s\) in loading state_dict for|Using a target size "
        r"\([^\n]{0,80}different to the input size"
        r"|stack expects each tensor to be equal size|Kernel size can't be greater than actual input size"
        r"|must match the existing size \(\d+\)|Dimension out of range \(expected|view size is not "
        r"compatible with input tensor's size"
        r"|doesn't match the broadcast shape|running_mean should contain \d+ elements|must be equal to input_size"
        r"|Expected hidden(?:\[\d\])? size|only batches of spatial targets supported|operands do not "
        r"broadcast with remapped shapes"
        r"|batch1 and batch2 must have same number|Expected size for first two dimensions of batch2"
        r"|the number of sizes provided|mat1 dim 1 must match mat2 dim 0|[Tt]he shape of the mask"
        r"|multi-target not supported at|Expected target size|inconsistent tensor size"
        r"|shape mismatch: (?:value tensor|indexing tensors|objects cannot)|broadcastable to shape"
        r"|selected index k out of range"
        r"|each element in list of batch should be of equal size",
    ),
)

_DTYPE = (
    Signature(
        "dtype-mismatch",
        (
            "have the same dtype",
            "expected scalar type",
            "of scalar type",
            "scalar types",
            "should be the same",
            "not implemented for '",
            "to the desired output type",
            "but expected float",
            "destination dtypes match",
            "indices must be long",
            "but got dtype",
            "to have scalar type",
            "should be the same dtype",
            "only support fp16 and bf16",
            "floating point dtype",
            "require gradients",
            "support float64",
            "must have the same dtype",
            "found dtype",
            "dtype mismatch",
            "mixed dtype",
            "expected object of type",
        ),
        r"(?:mat1 and mat2|self and mat2|m1 and m2|query, key,? and value|tensors?|operands|input and "
        r"\w+) (?:must|to|should) have the same dtype"
        r"|expected scalar type (?P<wanted>\w+) but (?:found|got) (?P<found>\w+)"
        r"|Expected object of scalar type \w+ but got scalar type \w+|to have one of the following scalar types"
        r"|Input type \((?!torch\.cuda\.\w+Tensor\) and (?:weight|bias) type \(torch\.(?!cuda)"
        r"|torch\.(?!cuda)\w+Tensor\) and (?:weight|bias) type \(torch\.cuda|MPS|CPU|XPU)"
        r"[\w.:]+\) and (?:weight|bias) type \((?!MPS)[\w.:]+\) should be the same"
        r"|\"(?P<kernel>\w+)\" not implemented for '(?!MPS|mps)(?P<dtype>\w+)'"
        r"|result type \w+ can't be cast to the desired output type|Found dtype \w+ but expected \w+"
        r"|Index put requires the source and destination dtypes match|tensors used as indices must be long"
        r"|expected dtype \w+ but got dtype \w+|expect(?:ed)?[^\n]{0,60} to have scalar type \w+|only "
        r"support fp16 and bf16 data type"
        r"|Only Tensors of floating point(?: and complex)? dtype can require gradients"
        r"|convert a MPS Tensor to float64|framework doesn't support float64"
        r"|expected m1 and m2 to have the same dtype|mixed dtype \(CPU\)"
        r"|Expected object of type torch\.(?P<cuda>cuda\.)?(?P<want2>\w+)Tensor but found type "
        r"torch\.(?(cuda)cuda\.|(?!cuda))(?P<got2>\w+)Tensor",
    ),
)

_AUTOGRAD = (
    Signature(
        "inplace-autograd",
        ("modified by an inplace operation", "in-place operation", "modified inplace", "is being modified in-place"),
        r"modified by an inplace operation|(?:a leaf Variable|a view of a leaf Variable)[^\n]{0,60}used "
        r"in an in-place operation"
        r"|is a view and (?:is|its base[^\n]{0,60}(?:is|has)) being modified in-?place|has been modified inplace",
    ),
    Signature(
        "backward-twice",
        (
            "backward through the graph a second time",
            "saved tensors after they have already been freed",
            "saved intermediate values of the graph",
        ),
        r"backward through the graph a second time|after they have already been freed",
    ),
    Signature(
        "no-grad-graph",
        ("does not require grad and does not have a grad_fn",),
        r"does not require grad and does not have a grad_fn",
    ),
    Signature(
        "numpy-of-grad",
        ("on tensor that requires grad", "on variable that requires grad"),
        r"Can't call numpy\(\) on (?:Tensor|Variable) that requires grad",
    ),
    Signature(
        "batchnorm-one-sample",
        ("expected more than 1 value per channel", "expected more than 1 spatial element"),
        r"Expected more than 1 (?:value|spatial element)[^\n]{0,20} when training",
    ),
    Signature(
        "ddp-unused-parameters",
        ("finished reduction in the prior iteration", "mark a variable ready only once"),
        r"Expected to have finished reduction in the prior iteration|Expected to mark a variable ready only once",
    ),
)

_LABEL = (
    Signature(
        "label-assert",
        (
            "n_classes` failed",
            "n_classes failed",
            "index out of bounds",
            "srcselectdimsize",
            "< num_indices",
            "is out of bounds",
            "index out of range in self",
            "smaller than num_classes",
            "n_classes' failed",
            "input_val <= one",
            "between 0 and 1",
            "vectorized gather kernel",
            "idx_dim < index_size",
            "index out of range:",
        ),
        r"(?:t >= 0 && t < n_classes|cur_target >= 0 && cur_target < n_classes)"
        r"|Assertion .[^\n]{0,160}index out of bounds|srcIndex < srcSelectDimSize|idx_dim >= 0 && idx_dim < index_size"
        r"|Target (?P<target>-?\d+) is out of bounds|index out of range in self|Class values must be "
        r"(?:smaller than num_classes|non-negative)"
        r"|index (?P<index_>-?\d+) is out of bounds for dimension \d+ with size \d+|index out of range: "
        r"Tried to access index"
        r"|input_val >= zero && input_val <= one|all elements of (?:input|target) should be between 0 and 1",
    ),
    Signature(
        "device-assert",
        ("device-side assert triggered", "cudaerrorassert", "cuda_error_assert"),
        r"device-side assert triggered|cudaErrorAssert\b|CUDA_ERROR_ASSERT",
    ),
    Signature(
        "sampling-nan",
        ("probability tensor contains either", "cumdist[size - 1]", "invalid multinomial distribution"),
        r"probability tensor contains either|cumdist\[size - 1\] > |invalid multinomial distribution",
    ),
)

_WORKER = (
    Signature(
        "spawn-bootstrap",
        (
            "finished its bootstrapping phase",
            "attempt has been made to start a new process",
            "_check_not_importing_main",
            "freeze_support()",
        ),
        r"An attempt has been made to start a new process before|current process has finished its bootstrapping phase"
        r"|_check_not_importing_main|freeze_support\(\)",
    ),
    Signature(
        "worker-broken-pipe",
        ("brokenpipeerror",),
        (
            r"\A(?=[\s\S]*BrokenPipeError: \[Errno 32\])"
            r"(?=[\s\S]*(?:reduction\.py|ForkingPickler|popen_spawn_win32|dataloader\.py|\bspawn\.py))"
        ),
        before=25,
        echo_of=("spawn-bootstrap",),
    ),
    Signature(
        "not-picklable",
        ("can't pickle", "cannot pickle", "can't get attribute", "can't get local object"),
        r"(?:Can't|cannot) pickle (?:local object|'?[\w.]*'? ?object|<(?:function|class)|(?:_thread|_io"
        r"|generator|module)\S*)"
        r"|Can't get (?:attribute '\w+' on <module '__main__'|local object)",
    ),
)

_NAN = (
    Signature(
        "nan-loss",
        (
            "loss: nan",
            "loss nan",
            "loss=nan",
            "loss = nan",
            "loss': nan",
            'loss": nan',
            "loss is nan",
            "loss:nan",
            "loss\tnan",
            "loss : nan",
            "loss -> nan",
            "loss is inf",
            "loss: inf",
            "loss=inf",
            "loss': inf",
            "became infinite or nan",
            "nan loss",
            "tensor(nan",
            "nan values in its",
            "minimum loss scale",
            "loss scale already at minimum",
            "reducing loss scale to",
            "grad_norm': nan",
            "grad_norm=nan",
            "found invalid values",
            "model diverged",
            "loss_cls: nan",
            "nan or inf found in input tensor",
            "nan detected",
            "nan encountered",
            "loss, nan",
            "(nan)",
        ),
        r"\b\w*loss\w*['\"]?\s{0,4}(?:[:=,]|is|->)?\s{0,4}\(?(?:tensor\()?[+-]?(?:nan|inf(?:inity)?)\b"
        r"|became infinite or NaN|Function '?\w+'? returned nan values|Minimum loss scale reached|loss "
        r"scale already at minimum"
        r"|reducing loss scale to (?:0(?:\.\d+)?|\d(?:\.\d+)?e-\d+)\b|grad_norm\W{1,4}nan|found invalid "
        r"values:?\W*\n?\s*tensor\(\[\W*nan"
        r"|Model diverged|NaN or Inf found in input tensor|NaN (?:loss|detected|encountered)"
        r"|loss\w*[^\n]{0,20}tensor\(nan",
        after=1,
    ),
    Signature(
        "loss-at-chance",
        ("2.302", "2.303", "0.693", "4.605", "6.907", "6.908", "0.6931", "1.0986", "1.609", "3.912"),
        (
            r"loss\W{1,8}(?P<loss>2\.30[23]|0\.693|4\.605|6\.90[78]|1\.098|1\.609"
            r"|3\.912)\d*(?:[\s\S]{1,200}?loss\W{1,8}(?P=loss)){3}"
        ),
        after=12,
    ),
)

_CHECKPOINT = (
    Signature(
        "weights-only",
        ("weights only load failed", "weightsunpickler error", "not an allowed global by default"),
        r"Weights only load failed|WeightsUnpickler error|was not an allowed global by default",
    ),
    Signature(
        "weights-only-global",
        ("unsupported global: global", "unsupported class"),
        r"Unsupported (?:global: GLOBAL|class) (?P<name>[\w.]+)",
    ),
    Signature(
        "unpickler-operand",
        ("unsupported operand ",),
        r"WeightsUnpickler error: Unsupported operand (?P<operand>\d{1,3})",
    ),
    Signature(
        "checkpoint-damaged",
        (
            "failed finding central directory",
            "invalid load key",
            "the file might be corrupted",
            "headertoolarge",
            "incompletemetadata",
            "metadataincompletebuffer",
            "ran out of input",
            "pytorchstreamreader failed",
            "unexpected eof, expected",
            "invalid magic number; corrupt",
        ),
        r"failed finding central directory|invalid load key, '?(?P<key>[^\n']{1,4})'?|file might be corrupted"
        r"|HeaderTooLarge|MetadataIncompleteBuffer|EOFError: Ran out of input|PytorchStreamReader failed"
        r"|unexpected EOF, expected \d+ more bytes|Invalid magic number; corrupt file",
    ),
)

_SOURCE = (
    Signature(
        "loop-without-zero-grad",
        (".backward()",),
        r"\A(?![\s\S]*(?:zero_grad|Traceback))(?=[\s\S]*\bfor\b[^\n]{1,100}\bin\b)"
        r"(?=[\s\S]*\.backward\(\))(?=[\s\S]*\w\.step\(\))",
        before=16,
        after=12,
    ),
    Signature(
        "eval-without-no-grad",
        ("def evaluate", "def validate", "def test(", "def validation", "def infer"),
        r"\A(?![\s\S]*(?:no_grad|inference_mode|\.eval\(\)|Traceback))"
        r"(?=[\s\S]*def (?:evaluate|validate|test|validation|infer\w*)\()(?=[\s\S]*\bmodel\()"
        r"(?=[\s\S]*(?:\bloss\b|\bargmax\b|\bmax\())",
        after=20,
    ),
)

SIGNATURES: tuple[Signature, ...] = (
    *_DEVICE,
    *_SHAPE,
    *_DTYPE,
    *_AUTOGRAD,
    *_LABEL,
    *_WORKER,
    *_NAN,
    *_CHECKPOINT,
    *_SOURCE,
)
