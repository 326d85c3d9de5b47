"""Arrays as the bytes of the files that hold them: npy, npz and safetensors."""
import io
import json
import struct
import zipfile

# The name in an npy header and the letter of module struct, of each dtype.
CODES = {"f64": ("f8", "d"), "f32": ("f4", "f"), "f16": ("f2", "e"), "bf16": ("V2", "H"), "i64": ("i8", "q"),
         "i32": ("i4", "i"), "i16": ("i2", "h"), "u8": ("u1", "B"), "bool": ("b1", "?")}


def encode(dtype, values, order="<"):
    """Values, which are floats, in a dtype. Integers get four times the magnitude, so that they are not all 0."""
    if dtype == "bf16":
        values = [struct.unpack("<I", struct.pack("<f", v))[0] >> 16 for v in values]
    elif dtype == "bool":
        values = [v > 0 for v in values]
    elif dtype[0] in "iu":
        values = [abs(int(v * 4)) if abs(v) < 9 else 0 for v in values]
    return struct.pack(f"{order}{len(values)}{CODES[dtype][1]}", *values)


def npy(dtype, shape, values, order="<", fortran=False, version=1):
    """An npy file. The values stand in the file's order, so fortran=True gives another array."""
    name = CODES[dtype][0]
    name = ("|" if name in ("V2", "u1", "b1") else order) + name
    header = f"{{'descr': '{name}', 'fortran_order': {fortran}, 'shape': ({''.join(f'{e},' for e in shape)}), }}"
    length = "<H" if version == 1 else "<I"
    header += " " * (-(len(header) + 9 + struct.calcsize(length)) % 64) + "\n"
    start = b"\x93NUMPY" + bytes([version, 0]) + struct.pack(length, len(header))
    return start + header.encode() + encode(dtype, values, order)


def npz(members, method=zipfile.ZIP_STORED):
    """An npz file of npy files by name."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), data, method)
    return made.getvalue()


def safetensors(members):
    """A safetensors file of (dtype, shape, values) by name."""
    header, data = {}, b""
    for name, (dtype, shape, values) in members.items():
        array = encode(dtype, values)
        header[name] = {"dtype": dtype.upper(), "shape": shape, "data_offsets": [len(data), len(data) + len(array)]}
        data += array
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
