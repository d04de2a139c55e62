"""What on this machine moves readings: found by `kbench doctor`, each with its reason and the command that changes it."""
