"""libckptc by ctypes. Arrays are NumPy's where NumPy is there, else lists of floats with a shape."""
import ctypes as c
import os

try:
    import numpy
except ImportError:
    numpy = None

library = c.CDLL(os.environ.get("LIBCKPTC", "libckptc.so.0"))
MAX_DIMS = 32
DTYPES = ["float16", None, "float32", "float64", "int8", "int16", "int32", "int64",
          "uint8", "uint16", "uint32", "uint64", "bool"]
KINDS = ["forward", "record", "save", "load", "drop", "spill", "fetch", "discard", "backward"]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 1020)]


class Step(c.Structure):
    _fields_ = [("count", c.c_int64), ("forward", c.c_double), ("backward", c.c_double), ("state_bytes", c.c_int64),
                ("residual_bytes", c.c_int64), ("forward_temporary_bytes", c.c_int64),
                ("record_temporary_bytes", c.c_int64), ("backward_temporary_bytes", c.c_int64),
                ("drops_input", c.c_int), ("keeps_output", c.c_int)]


class Costs(c.Structure):
    _fields_ = [("steps", c.POINTER(Step)), ("step_count", c.c_size_t), ("fixed_bytes", c.c_int64),
                ("output_bytes", c.c_int64), ("spill_write", c.c_double), ("spill_read", c.c_double)]


class Action(c.Structure):
    _fields_ = [("kind", c.c_int), ("unused", c.c_int), ("begin", c.c_int64), ("end", c.c_int64), ("slot", c.c_int64)]


class Counters(c.Structure):
    _fields_ = [(name, c.c_int64) for name in (
        "steps", "evaluations", "recomputed", "checkpoints", "slots", "disk_slots", "stored_bytes", "peak_bytes",
        "spill_writes", "spill_reads")] + [(name, c.c_double) for name in (
            "forward_time", "backward_time", "recomputed_time", "overhead_percent", "gap_percent")] + [
                ("reserved", c.c_int64 * 4)]


ON_STEP = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64)
ON_SLOT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64, c.c_int64)


class Callbacks(c.Structure):
    _fields_ = [(name, ON_STEP) for name in ("forward", "record", "backward")] + [
        (name, ON_SLOT) for name in ("save", "load", "drop", "spill", "fetch", "discard")]


class Array(c.Structure):
    _fields_ = [("dtype", c.c_int), ("ndim", c.c_int), ("shape", c.c_int64 * MAX_DIMS), ("data", c.c_void_p)]


class PlanOptions(c.Structure):
    _fields_ = [("allocator", c.c_void_p), ("memory", c.c_int64), ("max_checkpoints", c.c_int64),
                ("disk_bytes", c.c_int64), ("on_disk", c.c_int), ("threads", c.c_int), ("residuals", c.c_int),
                ("want_value", c.c_int), ("tile", c.c_int64), ("iterations", c.c_int64),
                ("reserved", c.c_int64 * 3)]


class Buffer(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t)]


class RunOptions(c.Structure):
    _fields_ = [("policy", c.c_char_p), ("plan", PlanOptions), ("spill", c.c_char_p), ("cotangent", c.POINTER(Array)),
                ("want_value", c.c_int), ("no_gradient", c.c_int), ("value", Buffer), ("gradient", Buffer),
                ("reserved", c.c_int64 * 4)]


for name in ("ckptc_plan_free", "ckptc_actions_free", "ckptc_chain_free", "ckptc_result_free"):
    getattr(library, name).argtypes, getattr(library, name).restype = [c.c_void_p], None
library.ckptc_plan_counters.restype = None
library.ckptc_actions_read.restype = c.c_size_t


def call(function, *arguments):
    """Calls a function whose last argument is the error, which it raises. A failed callback raises what it raised."""
    error = Error()
    if function(*arguments, c.byref(error)):
        raise RuntimeError(error.message.decode())


class Plan:
    """A plan of equal STEPS under POLICY."""

    def __init__(self, steps, policy, **step):
        run = Step(count=steps, **{"forward": 1, "backward": 2, **step})
        costs = Costs(c.pointer(run), 1, 0, -1, -1, -1)
        self.handle = c.c_void_p()
        call(library.ckptc_plan_costs, c.byref(self.handle), c.byref(costs), policy.encode(), None)
        self.counters = Counters()
        library.ckptc_plan_counters(self.handle, c.byref(self.counters))

    def __del__(self):
        library.ckptc_plan_free(self.handle)

    def __iter__(self):
        """Yields (kind, begin, end, slot), computed 256 at a time."""
        actions, block = c.c_void_p(), (Action * 256)()
        call(library.ckptc_actions_new, c.byref(actions), self.handle)
        try:
            while count := library.ckptc_actions_read(actions, block, c.c_size_t(256)):
                for action in block[:count]:
                    yield KINDS[action.kind], action.begin, action.end, action.slot
        finally:
            library.ckptc_actions_free(actions)

    def execute(self, **functions):
        """Calls functions of (step) or of (state, slot). What one raises ends the execution, and is raised."""
        raised = []

        def guarded(function):
            def guard(_, *arguments):
                try:
                    function(*arguments)
                    return 0
                except BaseException as exception:
                    raised.append(exception)
                    return 1
            return guard
        kinds = dict(Callbacks._fields_)
        callbacks = Callbacks(**{name: kinds[name](guarded(f)) for name, f in functions.items()})
        try:
            call(library.ckptc_execute, self.handle, c.byref(callbacks), None)
        except RuntimeError:
            if raised:
                raise raised[0] from None
            raise


class Chain:
    """A chain of ckptc-chain(5) on NumPy's arrays."""

    def __init__(self, text):
        self.handle, self.kept = c.c_void_p(), {}
        source = text.encode()
        call(library.ckptc_chain_new, c.byref(self.handle), source, c.c_size_t(len(source)), None)

    def __del__(self):
        library.ckptc_chain_free(self.handle)

    @staticmethod
    def of_numpy(values):
        values = numpy.ascontiguousarray(values)
        made = Array(DTYPES.index(values.dtype.name), values.ndim)
        made.shape[:values.ndim] = values.shape
        made.data = values.ctypes.data
        made.values = values  # keeps them alive
        return made

    def bind(self, name, values):
        self.kept[name] = self.of_numpy(values)
        call(library.ckptc_chain_bind, self.handle, name.encode(), c.byref(self.kept[name]))

    @staticmethod
    def to_numpy(array):
        shape, dtype = array.shape[:array.ndim], numpy.dtype(DTYPES[array.dtype])
        count = int(numpy.prod(shape, dtype=int))
        bytes_ = c.string_at(array.data, count * dtype.itemsize)
        return numpy.frombuffer(bytes_, dtype).reshape(shape).copy()

    def __call__(self, x):
        result, out = c.c_void_p(), Array()
        call(library.ckptc_run, c.byref(result), self.handle, c.byref(self.of_numpy(x)), None)
        library.ckptc_result_value(result, c.byref(out))
        try:
            return self.to_numpy(out)
        finally:
            library.ckptc_result_free(result)

    def grad(self, x, *params, policy="auto"):
        """Returns the gradients by x and by the params named."""
        result, out, options = c.c_void_p(), Array(), RunOptions(policy=policy.encode())
        call(library.ckptc_grad, c.byref(result), self.handle, c.byref(self.of_numpy(x)), c.byref(options))
        try:
            library.ckptc_result_gradient(result, c.byref(out))
            found = [self.to_numpy(out)]
            for name in params:
                if library.ckptc_result_param(result, name.encode(), c.byref(out)):
                    raise KeyError(name)
                found.append(self.to_numpy(out))
            return found
        finally:
            library.ckptc_result_free(result)
