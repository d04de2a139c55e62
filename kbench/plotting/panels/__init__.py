"""What can be drawn in a panel: lines, bars, dots, a heat map."""
