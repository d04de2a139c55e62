"""What a warp waits for, by NVIDIA's names: "Warp Stall Reasons" in the Kernel Profiling Guide of Nsight Compute."""

from __future__ import annotations

STALLS = {
    "long_scoreboard": "for data from global or local memory",
    "short_scoreboard": "for data from shared memory, or for a special function such as exp",
    "lg_throttle": "to issue an access to global or local memory: too many are queued, and wider accesses are fewer",
    "mio_throttle": "to issue an access to shared memory or a special function: too many are queued",
    "tex_throttle": "to issue an access to textures: too many are queued",
    "barrier": "for the other warps of the block at a barrier",
    "membar": "for a memory fence",
    "drain": "at the end of the kernel, until the stores are done",
    "wait": "for the fixed time that the instruction before takes",
    "math_pipe_throttle": "for an arithmetic unit that is in use",
    "no_instruction": "for the next instruction to be fetched, or after a jump",
    "no_instructions": "for the next instruction to be fetched, or after a jump",
    "branch_resolving": "for the target of a branch",
    "dispatch_stall": "for the dispatcher",
    "dispatch": "for the dispatcher",
    "imc_miss": "for a constant that is not in the cache",
    "sleeping": "because all threads of the warp sleep",
    "gmma": "for the tensor cores",
    "misc": "for something that has no name",
}


def explain_stall(name: str) -> str:
    """What follows "the warp waits": `for data from global or local memory`."""
    return STALLS.get(name, "for something that kbench does not know")
