"""The loop of a client of ckptc-program(7) whose arrays lie in shared memory.

serve(step, make_view) answers messages until they end. make_view(memory, bits, shape, offset) returns an array of floats in
MEMORY. STEP is an object with these functions; CALL.view(name) is the array NAME of a call, and CALL.number the step:

    open(types, wanted)     returns the traits. TYPES has (bits, shape) by name, WANTED the names that have cotangents
    forward(call)           writes y
    record(call)            writes y, and returns what backward needs
    backward(call, record)  writes dx and the cotangents of operands. RECORD is None where there is none
    gradient(call)          writes the sum of an operand's cotangents
"""
import itertools
import mmap
import re
import sys


class Call:
    def __init__(self, words, view):
        self.number = int(words[0]) if words[0].isdigit() else None
        self.handle = words[1] if words[1].isdigit() else None
        self.offsets = {name: int(offset) for name, _, offset in (w.partition("=") for w in words) if offset}
        self.view = lambda name: view(name, self.offsets[name])


def read_types(line):
    types = {name: (int(bits), tuple(int(n) for n in shape.split(",") if n))
             for name, bits, shape in re.findall(r"(\w+)=f(32|64)\[([\d,]*)\]", line)}
    return types | {"d" + name: types[name] for name in types if name != "y"} | {"g": types["y"]}


def serve(step, make_view):
    records, handles = {}, itertools.count(1)
    view = lambda name, offset: make_view(memory, *types[name], offset)
    for line in sys.stdin:
        word, *words = line.split()
        answer = "ok"
        if word == "open":
            types = read_types(line)
            records.clear()
            answer = "ready 1 backward memory " + step.open(types, words[-1].partition("=")[2].split(","))
        elif word == "memory":
            memory = mmap.mmap(3, int(words[0]))
            continue
        elif word == "release":
            del records[words[0]]
            continue
        elif word == "record":
            answer = f"ok {next(handles)}"
            records[answer[3:]] = step.record(Call(words, view))
        elif word == "backward":
            call = Call(words, view)
            step.backward(call, records.pop(call.handle) if call.handle else None)
        else:
            getattr(step, word)(Call(words, view))
        print(answer, flush=True)
