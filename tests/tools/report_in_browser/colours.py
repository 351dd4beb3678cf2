"""How well text can be read, as WCAG computes it."""

from collections.abc import Sequence

LEAST_CONTRAST = 4.5
"""What WCAG asks of text."""
COLOURS = """selector => {
  const rgb = (colour) => {
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return [...document.querySelectorAll(selector)].map((one) => [rgb(getComputedStyle(one).color), dark]);
}"""


def luminance(colour: Sequence[int]) -> float:
    linear = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
