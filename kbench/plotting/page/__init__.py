"""A page around its panels: layout, legend, caption."""
