"""Text recognition on rendered lines, side by side with ONNX Runtime: are they read alike, and how quickly.

    python benchmarks/ocr_lines.py --lines 200 --threads 1

Lines are drawn with Pillow in several fonts, sizes and colours, each as wide as its text, and read by PP-OCR
(`pip install --no-deps rapidocr-onnxruntime==1.4.4`, of which only the model file is read) from one package that takes
widths 32 to 960. Exit status 1 when a line is read differently.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.models.text_lines import FontsMissing, alphabet, read_line, render_lines
from tests.real_models import ModelMissing, find_model

from meta_infer import api
from meta_infer.runtime.session import load
from meta_infer.support.switches import read_switches
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import reference_session, run_reference

SHAPE = ("x=1,3,48,32..960",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    options = parser.parse_args()
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        model = find_model("ppocr_rec", cache)
        lines = list(render_lines(options.lines, options.seed))
    except (ModelMissing, FontsMissing) as error:
        print(error, file=sys.stderr)
        return 1
    package = cache / "ppocr_rec.bin"
    api.build(model, output=package, shape=SHAPE, verify=False)
    characters, reference = alphabet(model), reference_session(model, options.threads)
    same = right = 0
    seconds = {"meta-infer": 0.0, "ONNX Runtime": 0.0}
    worst = 0.0
    with load(package, threads=options.threads) as session:
        for line in lines:
            inputs = {"x": line.image}
            start = time.perf_counter()
            ours = session.run(None, inputs)[0]
            middle = time.perf_counter()
            theirs = run_reference(reference, inputs)[0]
            seconds["meta-infer"] += middle - start
            seconds["ONNX Runtime"] += time.perf_counter() - middle
            worst = max(worst, distance(ours, theirs).relative)
            texts = read_line(ours[0], characters), read_line(theirs[0], characters)
            same += texts[0] == texts[1]
            right += texts[0].replace(" ", "") == line.text.replace(" ", "")
            if texts[0] != texts[1]:
                print(f"{line.text!r} in {line.font} {line.size}: {texts[0]!r}, ONNX Runtime reads {texts[1]!r}")
    widths = sorted(line.image.shape[3] for line in lines)
    fonts, sizes = {line.font for line in lines}, {line.size for line in lines}
    print(f"{len(lines)} lines in {len(fonts)} fonts and {len(sizes)} sizes, {len(set(widths))} widths, {widths[0]} to "
          f"{widths[-1]}")
    print(f"{same} read as ONNX Runtime reads them, {right} right; largest relative difference {worst:.1e}")
    print(", ".join(f"{name} {total:.1f} s" for name, total in seconds.items()))
    return 0 if same == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
