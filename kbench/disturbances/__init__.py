"""What on this machine distorts timings: found by `kbench doctor`, each with its reason and the command that changes it."""
