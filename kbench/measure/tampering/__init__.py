"""Finds what a provider does outside of its outputs: replaced functions, global settings, threads, looks into memory."""
