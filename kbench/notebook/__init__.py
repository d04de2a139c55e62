"""What the Python API adds for notebooks: functions as plug-ins, frames as results, pictures as output."""
