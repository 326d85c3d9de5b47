"""python -m ckptc: the command line. The program takes the place of this process."""
import os
import sys

from ckptc._files import program

if __name__ == "__main__":
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
