"""The parts that the formats of a comparison share: headings, rows, words, aligned text."""
