# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A film strip of a run: an episode a row, with its instruction and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from phyai_ros.tools.recording import Episode, Frame, Recording

ROWS = 6
COLUMNS = 6
_WIDTH, _HEIGHT = 320, 240  # of a frame on the strip
_INSET = 0.275  # of the frame's width: the second camera
_GAP, _MARGIN, _CAPTION = 8, 28, 46
_PAPER, _CARD, _INK, _FAINT = "#12171d", "#1c242d", "#f2f5f7", "#93a1ae"
_OUTCOME = {True: ("success", "#3fbf87"), False: ("failure", "#e4605c"), None: ("", "#93a1ae")}
_BLOCKS = {"red": "#e0362f", "green": "#2fae55", "blue": "#2f6fe4"}


def save(recording: Recording, path: Path) -> list[str]:
    """Writes the strip; the names of the files written (none without pictures)."""
    episodes = choose(recording.episodes)
    if not episodes and recording.frames:
        episodes = [Episode({"instruction": "the run"}, 0.0, 0.0, list(recording.frames))]
    if not episodes:
        return []
    strip = draw(episodes)
    strip.save(path, optimize=True)
    return [path.name]


def choose(episodes: Sequence[Episode], rows: int = ROWS) -> list[Episode]:
    """At most ``rows`` episodes with pictures, in order: up to half failures, which say most."""
    filmed = [e for e in episodes if e.frames]
    failed = [e for e in filmed if e.success is False][: rows // 2]
    others = [e for e in filmed if not any(e is f for f in failed)][: rows - len(failed)]
    chosen = {id(e) for e in [*failed, *others]}
    return [e for e in filmed if id(e) in chosen]


def draw(episodes: Sequence[Episode]) -> Image.Image:
    """The strip as a picture."""
    columns = min(COLUMNS, max(len(e.frames) for e in episodes))
    width = 2 * _MARGIN + columns * _WIDTH + (columns - 1) * _GAP
    row = _CAPTION + _HEIGHT + 20
    canvas = Image.new("RGB", (width, 2 * _MARGIN + len(episodes) * row - 20), _PAPER)
    for number, episode in enumerate(episodes):
        _draw_row(canvas, episode, _MARGIN + number * row, columns)
    return canvas


def _draw_row(canvas: Image.Image, episode: Episode, top: int, columns: int) -> None:
    pen = ImageDraw.Draw(canvas)
    x, middle = _MARGIN, top + 16
    colour = _BLOCKS.get(str(episode.about.get("target", "")))
    if colour:
        pen.rounded_rectangle((x, middle - 9, x + 18, middle + 9), 4, fill=colour)
        x += 30
    text = f"“{episode.instruction}”"
    pen.text((x, middle), text, fill=_INK, font=_font(21, bold=True), anchor="lm")
    outcome, colour = _OUTCOME[episode.success]
    right = canvas.width - _MARGIN
    if outcome:
        box = pen.textbbox((right - 14, middle), outcome, font=_font(16, bold=True), anchor="rm")
        pen.rounded_rectangle((box[0] - 14, middle - 15, right, middle + 15), 15, fill=colour)
        pen.text((right - 14, middle), outcome, fill=_PAPER, font=_font(16, bold=True), anchor="rm")
        right = int(box[0]) - 28
    pen.text((right, middle), _details(episode), fill=_FAINT, font=_font(16), anchor="rm")
    for column, frame in enumerate(evenly(episode.frames, columns)):
        left = _MARGIN + column * (_WIDTH + _GAP)
        picture = _card(frame, frame.time - episode.frames[0].time)
        canvas.paste(picture, (left, top + _CAPTION - 8), _corners(picture.size, 10))


def _details(episode: Episode) -> str:
    about = episode.about
    parts = []
    if "seed" in about:
        parts.append(f"seed {about['seed']}")
    if isinstance(seconds := about.get("seconds"), (int, float)):
        parts.append(f"{seconds:.1f} s")
    if episode.success is False and about.get("over"):
        parts.append(f"over the {about['over']} block")
    if isinstance(distance := about.get("distance"), (int, float)):
        parts.append(f"{1000 * distance:.0f} mm from the target")
    return "   ".join(parts)


def evenly(frames: Sequence[Frame], count: int) -> list[Frame]:
    """``count`` frames, the first and the last among them; all if there are fewer."""
    if len(frames) <= count or count < 2:
        return list(frames[:count])
    return [frames[round(i * (len(frames) - 1) / (count - 1))] for i in range(count)]


def _card(frame: Frame, seconds: float) -> Image.Image:
    """The first camera, the second in its corner, the time."""
    roles = list(frame.images)
    card = _fit(frame.images[roles[0]], _WIDTH, _HEIGHT)
    if len(roles) > 1:
        inset = _fit(frame.images[roles[1]], round(_INSET * _WIDTH), round(_INSET * _HEIGHT))
        place = (_WIDTH - inset.width - 7, _HEIGHT - inset.height - 7)
        mask = _corners(inset.size, 6)
        border = Image.new("RGB", (inset.width + 4, inset.height + 4), "#ffffff")
        card.paste(border, (place[0] - 2, place[1] - 2), _corners(border.size, 8))
        card.paste(inset, place, mask)
    pen = ImageDraw.Draw(card, "RGBA")
    text = f"{seconds:.1f} s"
    box = pen.textbbox((16, 19), text, font=_font(14), anchor="lm")
    pen.rounded_rectangle((8, 8, box[2] + 8, 30), 8, fill=(18, 23, 29, 190))
    pen.text((16, 19), text, fill=_INK, font=_font(14), anchor="lm")
    return card


def _fit(pixels: np.ndarray, width: int, height: int) -> Image.Image:
    """The whole picture in ``width`` by ``height``, centred, with bars where it is narrower."""
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    scale = min(width / picture.width, height / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    card = Image.new("RGB", (width, height), _CARD)
    card.paste(picture, ((width - size[0]) // 2, (height - size[1]) // 2))
    return card


def _corners(size: tuple[int, int], radius: int) -> Image.Image:
    """A mask with round corners, smooth."""
    big = Image.new("L", (size[0] * 4, size[1] * 4), 0)
    ImageDraw.Draw(big).rounded_rectangle((0, 0, big.width - 1, big.height - 1), radius * 4, 255)
    return big.resize(size, Image.Resampling.LANCZOS)


def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along."""
    weight = "bold" if bold else "normal"
    found = font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans", weight=weight))
    return ImageFont.truetype(found, size)
