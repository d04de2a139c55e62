"""Writes a judged history: `report_text` for the terminal, `json_changes` for programs."""
