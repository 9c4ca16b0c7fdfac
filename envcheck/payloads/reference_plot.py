"""Draws the curves of a report: reference_plot.py FILE.png|FILE.svg < JSON. Needs matplotlib, of whichever Python has it."""
import json
import sys


def main():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with open(sys.argv[2]) as file:
        told = json.load(file)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for name, label in (("smooth", "float32, smooth twin"), ("logic", "float64")):
        values = told["losses"].get(name)
        if values:
            left.plot(range(1, len(values) + 1), values, label=label)
    for name, values in sorted(told["repeats"].items()):
        left.plot(range(1, len(values) + 1), values, ".", label="repeat " + name)
    left.set_xlabel("step")
    left.set_ylabel("loss")
    left.legend()
    epochs = told["epochs"]
    for key in ("train_accuracy", "test_accuracy"):
        right.plot([row["epoch"] for row in epochs], [row[key] for row in epochs], "o-", label=key.replace("_", " "))
    for band in told["bands"]:
        if band["limits"]:
            right.axhspan(band["limits"][0], band["limits"][1], alpha=0.2, label="band, %s, %d seeds" % (band["what"].replace("_", " "), band["seeds"]))
    right.set_xlabel("epoch of CIFAR-10")
    right.set_ylabel("accuracy")
    if epochs:
        right.legend()
    figure.suptitle(told["title"])
    figure.tight_layout()
    figure.savefig(sys.argv[1])
    print("\n@envcheck@ " + json.dumps({"stage": "done"}), flush=True)


if __name__ == "__main__":
    main()
