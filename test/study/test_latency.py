# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from phyai_ros.study import latency

RNG = np.random.default_rng(0)


def test_a_constant_is_always_the_same():
    found = latency.parse("100")
    assert {found.seconds(n, RNG) for n in range(1, 50)} == {0.1}
    assert found.label == "100 ms"


def test_every_nth_answer_is_a_spike():
    found = latency.parse("100x5@10")
    slow = [n for n in range(1, 41) if found.seconds(n, RNG) > 0.2]
    assert slow == [10, 20, 30, 40]
    assert found.seconds(10, RNG) == pytest.approx(0.5)


def test_a_recorded_distribution_is_drawn_from_what_was_measured(tmp_path):
    samples = [0.1, 0.11, 0.3]
    run = tmp_path / "monday"
    run.mkdir()
    (run / "report.json").write_text(json.dumps({"chunk_latency": {"samples": samples}}))
    (tmp_path / "list.json").write_text(json.dumps(samples))
    (tmp_path / "plain.txt").write_text("0.1, 0.11\n0.3\n")
    for path in (run / "report.json", tmp_path / "list.json", tmp_path / "plain.txt"):
        found = latency.read(path)
        drawn = [found.seconds(n, RNG) for n in range(600)]
        assert set(drawn) == set(samples)
        assert np.mean(drawn) == pytest.approx(0.17, abs=0.02)
    assert latency.read(run / "report.json").label == "monday, 3 answers, median 110 ms"


@pytest.mark.parametrize("text", ["fast", "-1", "nan", "100x5@0", "100x5", ""])
def test_a_delay_that_is_none_is_refused(text):
    with pytest.raises(latency.LatencyError, match="expected milliseconds as in 100"):
        latency.parse(text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{}", r"chunk_latency\.samples"),
        ("[]", "at least one number"),
        ('["a"]', "expected numbers"),
        ("[0.1, -1]", "at least one number of seconds >= 0"),
        ("[NaN]", "all finite"),
    ],
)
def test_a_file_without_a_distribution_is_refused_by_name(tmp_path, content, text):
    path = tmp_path / "measured.json"
    path.write_text(content)
    with pytest.raises(latency.LatencyError, match=rf"measured\.json: .*{text}"):
        latency.read(path)
    with pytest.raises(latency.LatencyError, match="No such file"):
        latency.read(tmp_path / "nothing.json")
