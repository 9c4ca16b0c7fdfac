"""Draws the curves of a report: reference_plot.py FILE.png|FILE.svg CURVES.json. Needs matplotlib, of whichever Python has it."""
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
    colours = {"train_accuracy": "tab:blue", "test_accuracy": "tab:orange"}
    for key, colour in colours.items():
        right.plot([row["epoch"] for row in epochs], [row[key] for row in epochs], "o-", color=colour, label=key.replace("_", " "))
    for band in told["bands"]:
        if band["limits"]:
            epoch, low, high = zip(*band["limits"])
            label = "band of %d seeds, %s" % (band["seeds"], band["what"].replace("_", " "))
            right.fill_between(epoch, low, high, color=colours[band["what"]], alpha=0.15, label=label)
    right.set_xlabel("epoch, " + told["data"])
    right.set_ylabel("accuracy")
    if epochs:
        right.legend()
    figure.suptitle(told["title"])
    figure.tight_layout()
    figure.savefig(sys.argv[1])
    print("\n@envcheck@ " + json.dumps({"stage": "done"}), flush=True)


if __name__ == "__main__":
    main()
