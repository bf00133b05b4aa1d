"""Runs a command and appends to a file what it and its children took, in one line:
seconds, CPU seconds, peak memory of the largest process in MiB, MiB written to file systems, CPU
seconds of another process meanwhile.

usage: measure.py TO [--no-files] [--beside PID] COMMAND…

With --no-files the kernel ends the command when it writes one byte to any file, on disk or in
memory (RLIMIT_FSIZE). What the command says goes nowhere if it ends well, else to stderr.
"""

import os
import resource
import subprocess
import sys
import time


def main():
    to, *command = sys.argv[1:]
    no_files, beside = False, None
    while command[0].startswith("--"):
        option = command.pop(0)
        if option == "--no-files":
            no_files = True
        elif option == "--beside":
            beside = command.pop(0)

    def limit():
        if no_files:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    before = of_other(beside)
    start = time.monotonic()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=limit,
    )
    said = child.stdout.read()
    # A process that is reaped hands its own figures and its children's to who reaps it.
    _, status, used = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        sys.stderr.buffer.write(said)
        print(f"{command[0]} ended with {code}", file=sys.stderr)
        sys.exit(1)
    cpu = used.ru_utime + used.ru_stime
    # On Linux: KiB, and blocks of 512 bytes.
    peak, written = used.ru_maxrss / 1024, used.ru_oublock / 2048
    with open(to, "a") as file:
        other = of_other(beside) - before
        file.write(f"{wall:.3f} {cpu:.3f} {peak:.1f} {written:.1f} {other:.2f}\n")


def of_other(pid):
    if pid is None:
        return 0
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


main()
