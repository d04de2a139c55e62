"""What a panel can show: lines, bars, dots or a map of winners."""
