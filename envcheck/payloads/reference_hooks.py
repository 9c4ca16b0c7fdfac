"""Runs somebody's program under hooks that write the hash of every tensor it computes, in the order of computing.

    reference_hooks.py TRACE STEPS SINCE FILE.py [args...]        or: TRACE STEPS SINCE -m MODULE [args...]

No change to the program: torch's own global hooks see each module's inputs, weights and outputs, the loss that is
differentiated, and each optimizer step's gradients and new weights. They are put in when the program itself imports
torch, so that what it sets before that import keeps its effect. After STEPS optimizer steps the program is ended.

TRACE gets one JSON line for each tensor, [kind, step, root, part, type, what, hash, sum, size]:

    start       weights and buffers of a model when it is first called
    generator   state of a random generator when torch is imported (step 0) and when a step begins; tells causes, is no
                difference by itself
    input       what is given to a model (an outermost module)
    between     what is given to a part of it and no other part has put out as it is
    state       weights and buffers of a part as its call finds them
    output      what a module returns
    loss        what backward() starts from
    gradient    of each weight when the optimizer steps, in the order of the backward pass
    weights     after the step

root is the model's name in the program, part the dotted name below it. sum and size are the sums, in float64, of the
elements and of their magnitudes (of every n-th element in large tensors). Other lines are objects: {"settings": ...},
{"end": ...}, {"reread": [...]}: files made after SINCE (seconds) and before this run, and read by it.
"""
import ctypes
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import random
import runpy
import sys
import threading
import time
import warnings
import weakref

torch = None  # set by `install`, as late as the program itself imports it

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE = 32 << 20  # bytes of a CPU tensor that are hashed as a whole; of a larger one that many, in blocks
BLOCK = 1 << 16
SUMMED = 1 << 20  # elements that are summed
CHUNK = 1 << 22  # elements of a device's tensor that are hashed at once
MAX_ROWS = 1000000  # a program that never steps is ended here
PENDING = 512  # hashes that wait on the device at most


# -- A tensor's hash -------------------------------------------------------------------------------------------------


class Unreadable(Exception):
    """A tensor without data of its own, or of a kind that cannot be read here."""


class Counts:
    """What measuring cost, and what was not measured whole."""

    def __init__(self):
        self.bytes, self.seconds, self.sampled, self.unread, self.devices = 0, 0.0, 0, 0, set()


def parts_of(value):
    """The plain tensors that a tensor consists of."""
    if value.device.type == "meta":
        raise Unreadable("meta")
    if value.is_sparse:
        return [value._indices(), value._values()]
    layout = str(value.layout)
    if layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        return [value.crow_indices(), value.col_indices(), value.values()]
    if layout in ("torch.sparse_csc", "torch.sparse_bsc"):
        return [value.ccol_indices(), value.row_indices(), value.values()]
    if getattr(value, "is_nested", False):
        return list(value.unbind())
    if layout != "torch.strided":
        return [value.to_dense()]
    if value.is_quantized:
        return [value.int_repr()]
    if hasattr(value, "__tensor_flatten__"):  # a wrapper: DTensor, quantized weights of other libraries
        return [part for name in value.__tensor_flatten__()[0] for part in parts_of(getattr(value, name).detach())]
    return [value]


def plain(value):
    """Strided, with repeated dimensions taken once: an expanded tensor must not be spread out in memory."""
    if hasattr(value, "resolve_conj"):
        value = value.resolve_conj().resolve_neg()
    for dimension, (size, stride) in enumerate(zip(value.shape, value.stride())):
        if stride == 0 and size > 1:
            value = value.narrow(dimension, 0, 1)
    return value


def of_memory(value, counts):
    """Hash of a CPU tensor's bytes."""
    value = value.contiguous()
    size = value.numel() * value.element_size()
    told = hashlib.sha1()
    if size:
        pointer = value.data_ptr()
        if not pointer:
            raise Unreadable("no memory")
        data = memoryview((ctypes.c_ubyte * size).from_address(pointer))
        if size <= WHOLE:
            told.update(data)
            counts.bytes += size
        else:
            counts.sampled += 1
            counts.bytes += WHOLE
            blocks = WHOLE // BLOCK
            for number in range(blocks):
                start = (size - BLOCK) * number // (blocks - 1)
                told.update(data[start:start + BLOCK])
    return told.hexdigest()[:16]


def on_device(value):
    """The same without a copy to the CPU: a sum over all elements' bits, each times its own odd number, modulo 2**64.

    Sums of integers do not depend on their order; a change of a single element always changes it."""
    if value.dtype == torch.bool:
        value = value.to(torch.uint8)
    elif value.is_complex():
        value = torch.view_as_real(value)
    wide = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]
    flat = value.contiguous().reshape(-1).view(wide)
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for start in range(0, flat.numel(), CHUNK):
        part = flat[start:start + CHUNK].to(torch.int64)
        odd = torch.arange(start + 1, start + 1 + part.numel(), dtype=torch.int64, device=flat.device) * -7046029254386353131
        total = total + (part * ((odd ^ (odd >> 29)) | 1)).sum()
    return total


def sums(value):
    """(sum, sum of magnitudes) in float64; (None, None) of what is no real number."""
    if not value.is_floating_point() or value.element_size() < 2 or not value.numel():
        return None, None
    if not value.is_contiguous():
        value = value.contiguous()
    flat = value.view(-1)
    step = -(-flat.numel() // SUMMED)
    flat = flat[::step].double()
    return flat.sum(), flat.abs().sum()


def measure(value, counts):
    """(hash, sum, size) of a tensor: strings and numbers, or tensors that the device has yet to compute."""
    try:
        with torch.no_grad():
            value = value.detach()
            head = "%s %s" % (str(value.dtype)[6:], list(value.shape))
            told = []
            counts.devices.add(value.device.type)
            for part in parts_of(value):
                part = plain(part)
                if part.device.type in ("cuda", "xpu"):
                    counts.bytes += part.numel() * part.element_size()
                    told.append((on_device(part),) + sums(part))
                else:
                    part = part.cpu()
                    told.append((of_memory(part, counts),) + sums(part))
            if len(told) == 1:
                return (head, told[0][0]), told[0][1], told[0][2]
            return (head,) + tuple(item[0] for item in told), None, None
    except Exception as error:  # the program under audit must not fail by what is only looked at
        counts.unread += 1
        return ("not compared: %s" % (error if isinstance(error, Unreadable) else type(error).__name__),), None, None


def number(value):
    """A float, as JSON and the reader take it."""
    return None if value is None else float(value)


# -- The trace ---------------------------------------------------------------------------------------------------------


class Trace:
    """Collects one row a tensor; knows modules and parameters by the names they have below the outermost module.

    path: where rows are written; None keeps them in `rows`. say: called with the number of each step that was made.
    """

    def __init__(self, path=None, steps=0, say=None):
        self.file = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
        self.steps, self.say, self.step, self.written = steps, say, 0, 0
        self.pid, self.thread = os.getpid(), None
        self.rows, self.pending = [], 0
        self.counts, self.notes, self.begun = Counts(), {}, time.time()
        self.names, self.parameters, self.labels = {}, {}, {}
        self.stack, self.open, self.inside = [], [], False
        self.seen, self.known, self.began = set(), {}, False

    # What a hook may do now.

    def idle(self):
        """True in a forked child, in another thread, while a graph is captured or traced, or within our own work."""
        if self.inside or os.getpid() != self.pid:
            return True
        if self.thread is None:
            self.thread = threading.get_ident()
        if self.thread != threading.get_ident():
            return True
        if torch.jit.is_tracing():
            return True
        return capturing()

    # Rows.

    def put(self, kind, label, what, value):
        begun = time.perf_counter()
        self.inside = True
        try:
            told, total, size = measure(value, self.counts)
        finally:
            self.inside = False
        self.rows.append([kind, self.step + 1, label[0], label[1], label[2], what, told, total, size])
        self.counts.seconds += time.perf_counter() - begun
        self.written += 1
        if isinstance(told[-1], torch.Tensor):
            self.pending += 1
            if self.pending >= PENDING:
                self.settle()
        if self.file is not None and len(self.rows) >= 4096:
            self.flush()
        if self.file is not None and self.written >= MAX_ROWS:
            self.finish("rows")

    def settle(self):
        """Brings what the device has computed into the rows."""
        for row in self.rows:
            if not isinstance(row[6], str):
                try:
                    row[6] = " ".join(item if isinstance(item, str) else "%016x" % (int(item) & (2 ** 64 - 1)) for item in row[6])
                    row[7], row[8] = number(row[7]), number(row[8])
                except Exception as error:  # the device has failed: the program will hear of it by itself
                    row[6], row[7], row[8] = "not compared: %s" % type(error).__name__, None, None
        self.pending = 0

    def flush(self):
        if os.getpid() != self.pid:
            return
        self.settle()
        if self.file is None:
            return
        lines = [json.dumps(row) for row in self.rows]
        self.rows = []
        if lines:
            write(self.file, "\n".join(lines) + "\n")

    def note(self, **values):
        """An object among the rows."""
        self.flush()
        if self.file is not None:
            write(self.file, json.dumps(values) + "\n")

    def walk(self, kind, label, what, value, anew=True, depth=0):
        """Each tensor within the value; anew=False: only what no module has just put out as it is."""
        if isinstance(value, torch.Tensor):
            if anew or not self.is_known(value):
                self.put(kind, label, what, value)
            return
        if depth > 4:
            return
        if isinstance(value, (tuple, list)):
            items = list(enumerate(value))
        elif isinstance(value, dict):
            items = list(value.items())
        elif hasattr(type(value), "__dataclass_fields__"):
            items = [(name, getattr(value, name, None)) for name in type(value).__dataclass_fields__]
        else:
            return
        for key, item in items:
            self.walk(kind, label, ("%s %s" % (what, key)).strip() if len(items) > 1 or isinstance(key, str) else what, item, anew, depth + 1)

    def remember(self, value, depth=0):
        """Marks tensors whose bits stand in the trace already."""
        if len(self.known) > 20000:
            self.known.clear()
        if isinstance(value, torch.Tensor):
            try:
                self.known[id(value)] = (weakref.ref(value), value._version)
            except Exception:  # tensors of inference mode count no versions
                pass
        elif isinstance(value, (tuple, list)) and depth < 4:
            for item in value:
                self.remember(item, depth + 1)
        elif isinstance(value, dict) and depth < 4:
            for item in value.values():
                self.remember(item, depth + 1)

    def is_known(self, value):
        found = self.known.get(id(value))
        try:
            return found is not None and found[0]() is value and found[1] == value._version
        except Exception:
            return False

    # Names.

    def learn(self, module):
        """Names of an outermost module's parts, and the first look at its weights."""
        if id(module) in self.names and self.names[id(module)][3]() is module:
            return
        root, module = name_in_program(module)
        self.labels[root] = self.labels.get(root, 0) + 1
        if self.labels[root] > 1:
            root = "%s #%d" % (root, self.labels[root])
        for name, part in module.named_modules():
            if id(part) not in self.names or self.names[id(part)][3]() is not part:  # an id is used again after its object's end
                self.names[id(part)] = (root, short(name), type(part).__name__, weakref.ref(part))
            self.seen.add(id(part))
        for name, value in list(module.named_parameters()) + list(module.named_buffers()):
            if id(value) not in self.parameters:
                self.parameters[id(value)] = (root, short(name), "")
                self.put("start", (root, short(name), ""), "", value)

    def label(self, module):
        found = self.names.get(id(module))
        if found is not None and found[3]() is module:
            return found
        return (type(module).__name__, "", type(module).__name__)

    # Modules.

    def before(self, module, inputs):
        if self.idle():
            return
        if self.stack and self.stack[0] == id(module):
            self.stack = []  # its last call ended by an exception
        root = not self.stack
        if root:
            self.learn(module)
            if not self.began:
                self.began = True
                self.generators()
        self.stack.append(id(module))
        label = self.label(module)
        kind = "input" if root else "between"
        named = keywords()
        self.walk(kind, label, "", inputs, anew=False)
        self.walk(kind, label, "", named, anew=False)
        if root:
            self.remember(inputs)
            self.remember(named)
        if id(module) not in self.seen:
            self.seen.add(id(module))
            for name, value in list(module._parameters.items()) + list(module._buffers.items()):
                if value is not None:
                    root_name, part, _ = self.parameters.get(id(value), (label[0], (label[1] + "." + name).strip("."), ""))
                    self.put("state", (root_name, part, ""), "", value)

    def after(self, module, inputs, output):
        if self.idle():
            return
        if id(module) in self.stack:  # a call that ended by an exception left its own entry above
            while self.stack.pop() != id(module):
                pass
        self.walk("output", self.label(module), "", output)
        self.remember(output)

    def loss(self, tensors):
        """What backward() is called on."""
        if not self.idle():
            self.walk("loss", ("", "", ""), "", list(tensors) if isinstance(tensors, (list, tuple)) else tensors, anew=False)

    def generators(self, step=None):
        """The states of the random generators as the step begins; step 0: as torch is imported."""
        told = {"torch": torch.get_rng_state}
        if torch.cuda.is_initialized():
            told["torch, GPU"] = torch.cuda.get_rng_state
        told["random"] = random.getstate
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            # why the import: numpy 2 loads it at its first use, and one that was not seen at step 0 may have been drawn from
            told["numpy"] = lambda: importlib.import_module("numpy.random").get_state()
        for name in sorted(told):
            try:
                state = told[name]()
                if isinstance(state, torch.Tensor):
                    digest = of_memory(state.cpu(), Counts())
                else:
                    digest = hashlib.sha1(repr([part.tobytes() if hasattr(part, "tobytes") else part for part in state]).encode()).hexdigest()[:16]
            except Exception:  # within a function transform there are no plain tensors
                continue
            self.rows.append(["generator", self.step + 1 if step is None else step, "", name, "", "", (digest,), None, None])

    # Optimizers.

    def each(self, optimizer):
        """(label, parameter) of all that the optimizer changes."""
        found = [p for group in optimizer.param_groups for p in group["params"]]
        if any(id(p) not in self.parameters for p in found):
            self.search(found)
        for place, p in enumerate(found):
            yield self.parameters.get(id(p), (type(optimizer).__name__, "parameter %d" % place, "")), p

    def search(self, wanted):
        """Names of parameters whose module was never seen to be called: compiled in place, or used by functions."""
        import gc

        ids = {id(p) for p in wanted if id(p) not in self.parameters}
        modules = [m for m in gc.get_objects() if issubclass(type(m), torch.nn.Module)]
        modules = [(len(list(m.modules())), m) for m in modules]
        for _, module in sorted(modules, key=lambda pair: -pair[0]):  # the largest first: the others are its parts
            root = None
            for name, p in module.named_parameters():
                if id(p) in ids:
                    ids.discard(id(p))
                    root = root or name_in_program(module)[0]
                    self.parameters[id(p)] = (root, short(name), "")
                    self.put("start", self.parameters[id(p)], "", p)
        for p in wanted:
            self.parameters.setdefault(id(p), ("", "a parameter of shape %s" % list(p.shape), ""))

    def gradients(self, optimizer):
        for label, p in reversed(list(self.each(optimizer))):
            if p.grad is not None:
                self.put("gradient", label, "", p.grad)

    def before_step(self, optimizer, args, keywords_):
        """Gradients, unless a closure is still to compute them: then they are looked at after each of its calls."""
        if self.idle():
            return None
        if id(optimizer) in self.open:  # its last step ended by an exception
            del self.open[self.open.index(id(optimizer)):]
        self.open.append(id(optimizer))
        if len(self.open) > 1:
            return None  # an optimizer within another one
        if "settings" not in self.notes:
            self.settings()
        args, given = list(args), dict(keywords_)
        closure = args[1] if len(args) > 1 else given.get("closure")
        if not callable(closure):
            self.gradients(optimizer)
            return None

        @functools.wraps(closure)
        def watched(*a, **k):
            result = closure(*a, **k)
            if not self.idle():
                self.gradients(optimizer)
            return result

        if len(args) > 1:
            args[1] = watched
        else:
            given["closure"] = watched
        return tuple(args), given

    def after_step(self, optimizer):
        if self.idle() or id(optimizer) not in self.open:
            return
        while self.open.pop() != id(optimizer):
            pass
        if self.open:
            return
        for label, p in self.each(optimizer):
            self.put("weights", label, "", p)
        self.step += 1
        self.stack, self.began = [], False
        self.seen.clear()
        self.known.clear()
        self.flush()
        if self.say is not None:
            self.say(self.step)
        if self.steps and self.step >= self.steps:
            self.finish("steps")

    # The end.

    def settings(self):
        """How the program has set what decides about equal bits, when it first steps."""
        self.notes["settings"] = True
        if self.file is None:
            return
        checks = importlib.import_module("reference_checks")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = {name: checks.setting(name) for name in checks.SETTINGS}
        self.note(settings=values, variables={name: os.environ[name] for name in checks.VARIABLES if name in os.environ}, torch=str(torch.__version__), devices=sorted(self.counts.devices))

    def close(self, why):
        """The last lines."""
        if os.getpid() != self.pid or "end" in self.notes:
            return
        self.notes["end"] = True
        if torch is not None and "settings" not in self.notes:
            self.settings()
        if self.notes.get("reread"):
            self.note(reread=self.notes["reread"])
        counts = self.counts
        self.note(end=why, steps=self.step, tensors=self.written, bytes=counts.bytes, hashing=round(counts.seconds, 3), seconds=round(time.time() - self.begun, 3), sampled=counts.sampled, unread=counts.unread, devices=sorted(counts.devices))

    def finish(self, why):
        """Ends the program: nothing that it does from here on is looked at."""
        import multiprocessing

        self.close(why)
        if self.say is not None:
            self.say(None)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        for child in multiprocessing.active_children():
            child.terminate()
        os._exit(0)


def write(handle, text):
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(handle, data):]


def short(name):
    """A part's name without what wrappers (torch.compile, DDP) put before it."""
    return ".".join(word for place, word in enumerate(name.split(".")) if word != "_orig_mod" and not (word == "module" and place == 0))


def capturing():
    """True while a CUDA graph is captured: nothing may be read back from the device then."""
    try:
        return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    except Exception:
        return False


def keywords():
    """The keyword arguments of the module call that is being hooked: pre-hooks of all torch releases see only the others."""
    frame = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            return {}
        if frame.f_code.co_name in ("inner", "_call_impl"):
            found = frame.f_locals.get("kwargs")
            if isinstance(found, dict):
                return found
        frame = frame.f_back
    return {}


def name_in_program(module):
    """(name, module) of the variable, or of the attribute of some `self`, that holds this module where it is called, or
    of one that holds a model which it is a part of."""
    held = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is not globals() and not str(frame.f_globals.get("__name__")).startswith("torch."):
            spaces = [frame.f_locals, frame.f_globals]
            holder = frame.f_locals.get("self")
            if holder is not None and holder is not module:
                spaces[1:1] = [getattr(holder, "__dict__", {}), getattr(holder, "__dict__", {}).get("_modules") or {}]
            for space in spaces:
                for name, value in list(space.items()):
                    if isinstance(name, str) and name not in ("self", "module") and not name.startswith("__") and issubclass(type(value), torch.nn.Module):
                        if value is module:
                            return name, module
                        held.append((name, value))
        frame = frame.f_back
    for name, value in held:
        if any(part is module for part in value.modules()):
            return name, value
    return type(module).__name__, module


# -- Hooks -------------------------------------------------------------------------------------------------------------

ACTIVE = None  # the trace that is written now
compiling = bool  # set by `install`; called without arguments, it is False


def watched(call, *args):
    """What the hook answers; never an exception, for the program must not fail by being looked at."""
    if ACTIVE is None:
        return None
    try:
        return getattr(ACTIVE, call)(*args)
    except Exception:
        ACTIVE.counts.unread += 1
        return None


def before(module, inputs):
    if not compiling():  # why first: torch.compile traces this function, and must find nothing in it
        watched("before", module, inputs)


def after(module, inputs, output):
    if not compiling():
        watched("after", module, inputs, output)


def before_step(optimizer, args, keywords_):
    return None if compiling() else watched("before_step", optimizer, args, keywords_)


def after_step(optimizer, *unused):
    if not compiling():
        watched("after_step", optimizer)


def wrap_step(kind):
    """Hooks an optimizer class's step, for torch that has no global hooks of optimizers."""
    if getattr(kind.step, "envcheck", False):
        return
    step = kind.step

    @functools.wraps(step)  # schedulers and scalers look at its signature and its class
    def traced(self, *args, **given):
        changed = before_step(self, (self,) + args, given)
        args, given = ((self,) + args, given) if changed is None else changed
        result = step(*args, **given)
        after_step(self)
        return result

    traced.envcheck = True
    kind.step = traced


def install():
    """Registers the hooks in the torch that is imported now."""
    global torch, compiling
    torch = sys.modules["torch"]
    compiler = getattr(torch, "compiler", None) or getattr(torch, "_dynamo", None)
    if hasattr(compiler, "is_compiling"):
        compiling = compiler.is_compiling
    watched("generators", 0)
    modules = torch.nn.modules.module
    modules.register_module_forward_pre_hook(before)
    modules.register_module_forward_hook(after)
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def from_loss(tensors, *args, **given):
        if not compiling():
            watched("loss", tensors)
        return backward(tensors, *args, **given)

    torch.autograd.backward = from_loss
    # A filter of ours, so that a program that makes warnings into errors does not fail by our hooks.
    warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
    optim = importlib.import_module("torch.optim.optimizer")  # newer releases do not show it as an attribute
    if hasattr(optim, "register_optimizer_step_pre_hook"):
        optim.register_optimizer_step_pre_hook(before_step)
        optim.register_optimizer_step_post_hook(after_step)
        return
    plain_init = optim.Optimizer.__init__

    @functools.wraps(plain_init)
    def made(self, *args, **given):
        plain_init(self, *args, **given)
        wrap_step(type(self))

    optim.Optimizer.__init__ = made


class Waiting:
    """A finder that hooks torch as soon as somebody has imported it; asking only whether it is there changes nothing."""

    asked = False  # by ourselves

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.asked:
            return None
        self.asked = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asked = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def loaded(module):
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                load(module)
                install()

            spec.loader.exec_module = loaded
        return spec


# -- The program -------------------------------------------------------------------------------------------------------


def watch_files(trace, since):
    """Notes regular files that the run before has written and this one reads: it may go on from there."""
    trace.notes["reread"] = found = []
    if not since or not hasattr(sys, "addaudithook"):
        return

    def opened(event, details):
        if event != "open" or "end" in trace.notes or os.getpid() != trace.pid or len(found) >= 20:
            return
        try:
            path, mode, flags = details
            if isinstance(path, int) or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
                return
            path = os.fsdecode(path)
            if not path.endswith((".pyc", ".py")) and os.path.isfile(path) and since <= os.path.getmtime(path) < trace.begun:
                inside = os.path.relpath(path)
                name = os.path.basename(path) if inside.startswith("..") else inside
                if name not in found:
                    found.append(name)
        except Exception:
            pass

    sys.addaudithook(opened)


def teller():
    """A function that says each step on what is standard output now, whatever the program makes of it."""
    handle, pid = os.dup(1), os.getpid()

    def say(step):
        if os.getpid() == pid:
            told = {"stage": "done"} if step is None else {"stage": "step", "step": step}
            try:
                write(handle, "\n@envcheck@ %s\n" % json.dumps(told))
            except OSError:
                pass

    return say


def main():
    global ACTIVE
    path, steps, since, program = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    import reference_checks  # noqa: F401 - while its folder is on the path

    ACTIVE = trace = Trace(path, steps, teller())
    watch_files(trace, since)
    if "torch" in sys.modules:  # by a .pth file or sitecustomize
        install()
    else:
        sys.meta_path.insert(0, Waiting())
    try:
        if program[0] == "-m":
            sys.argv = program[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = program
            if os.path.isdir(program[0]):
                del sys.path[0]
            else:
                sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
            runpy.run_path(program[0], run_name="__main__")
    finally:
        trace.close("itself")
        trace.say(None)


if __name__ == "__main__":
    main()
