"""Robots and motions as pictures: one scene, drawn as pixels, as SVG and in a web page."""
