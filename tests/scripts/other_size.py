"""Two ranks of the module alone: rank 1 expects fewer bytes than rank 0 sends. Prints one line for each rank."""
import ctypes
import sys

function = ctypes.CFUNCTYPE
truth, pointer, size, number = ctypes.c_bool, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class Calls(ctypes.Structure):
    _fields_ = [("version", number), ("start", function(ctypes.c_char_p, pointer, pointer)),
                ("broadcast", function(truth, pointer, size)),
                ("send", function(truth, number, number, pointer, size)),
                ("receive", function(truth, number, number, pointer, size)), ("good", function(truth)),
                ("fail", function(None)), ("wrong", function(ctypes.c_char_p)),
                ("settle", function(None, pointer, size, pointer)), ("stop", function(None))]


calls = Calls.in_dll(ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL), "ckptc_rank_calls")
sent, expected = int(sys.argv[2]), int(sys.argv[3])
index, count = number(), number()
assert calls.start(ctypes.byref(index), ctypes.byref(count)) is None and count.value == 2
there = ctypes.create_string_buffer(b"\7" * (1 << 21), 1 << 21)
if index.value == 0:
    calls.send(1, 7, there, sent)
    good = calls.receive(1, 8, there, 8)  # which rank 1 never sends
else:
    good = calls.receive(0, 7, there, expected)
status = ctypes.create_string_buffer(2)
calls.settle(b"\1" if good else b"\0", 1, status)
untouched = there.raw == b"\7" * (1 << 21)
sys.stdout.write(f"rank {index.value}: {good} {untouched} {calls.wrong() is not None}\n")
sys.stdout.flush()
calls.stop()
