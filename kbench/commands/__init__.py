"""What each command does once its arguments are read: call the library, print, return the exit code."""
