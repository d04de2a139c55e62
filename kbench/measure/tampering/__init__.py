"""Finds what a provider changes outside of its outputs: replaced functions, global settings, threads, glances at kbench."""
