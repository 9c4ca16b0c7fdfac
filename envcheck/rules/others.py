"""What other commands than `doctor` and `diagnose` can find: names without a rule's function, with a page like every rule.

`reference` and `export --check` judge what no `Facts` holds (two runs of a training, a file), so they make their findings
themselves. Their ids stand here, and `envcheck explain`, docs/ and the tests of pages walk `envcheck.rules.EXPLAINED`,
which is the rules and these. To add one:

1. Make the finding, `Finding(rule="reference-slow", area="performance", ...)` or `Skipped(rule=...)`. The id is written
   where the finding is made as a literal, as `"a" if x else "b"`, as a constant, or is taken from a table of the module
   (`TABLE[key]`, `TABLE.get(key, "default")`); never glued together, so that tests/test_finding_ids.py can read it.
2. A row below: id, the area that the finding has, and a sentence that is true of all findings of that id.
3. Its page in `pages/reference.toml` or `pages/files.toml` (fields: `Page` in page.py), then `python docs/build.py`.

A finding whose cause is one of the rules takes the rule's id and area, and needs nothing here.
"""

from __future__ import annotations

from envcheck.rules.base import Named

OTHERS: tuple[Named, ...] = (
    # envcheck diagnose
    Named("diagnose", "runtime", "The text does not say enough to tell what is wrong, or that nothing is."),
    # envcheck export --check, and export into a file that is there
    Named("wrong-package-name", "install", "A requirement has the name that the package has elsewhere."),
    Named("file-mixed-channels", "install", "An environment file mixes the conda channels defaults and conda-forge."),
    Named("file-extra-index", "install", "A file leaves open which index answers for torch."),
    Named("file-index-only", "install", "A file asks PyTorch's index for packages that it does not have."),
    Named("file-base-replaced", "build", "A Dockerfile installs another torch over the one of its base image."),
    # envcheck reference
    Named("reference-failed", "runtime", "A part of the reference training raised, crashed or did not end."),
    Named("reference-inputs", "reproducibility", "What is drawn from integers is not the same as everywhere else."),
    Named("reference-memory", "reproducibility", "Weights changed between two steps, while nothing wrote to them."),
    Named(
        "reference-data", "reproducibility", "The model was given other images, labels or order than the recipe says."
    ),
    Named(
        "reference-forward", "reproducibility", "A layer or the loss does not agree with the same by other operations."
    ),
    Named(
        "reference-backward",
        "reproducibility",
        "A gradient is missing, or does not agree with the same by other operations.",
    ),
    Named("reference-optimizer", "reproducibility", "The optimizer's step is not the one of its settings."),
    Named("reference-statistics", "reproducibility", "BatchNorm's running statistics do not follow the batches."),
    Named("reference-evaluation", "reproducibility", "The evaluation does not give what these weights are worth."),
    Named(
        "reference-precision", "reproducibility", "Layers compute in less than float32, although float32 is asked for."
    ),
    Named("reference-tf32", "reproducibility", "With the user's own settings layers compute in TF32-like precision."),
    Named(
        "reference-reduced-precision",
        "reproducibility",
        "With the user's own settings layers compute in less than TF32.",
    ),
    Named(
        "reference-trajectory", "reproducibility", "A training leaves the recorded values by more than rounding can."
    ),
    Named("reference-not-repeatable", "reproducibility", "With deterministic settings the same run gives other bits."),
    Named(
        "reference-defaults-not-repeatable",
        "reproducibility",
        "With the user's own settings the same run gives other bits.",
    ),
    Named(
        "reference-resume", "reproducibility", "A run that was killed and resumed does not end like the unbroken one."
    ),
    Named(
        "reference-operation-differs",
        "reproducibility",
        "An operation gives other bits from call to call although deterministic algorithms are on.",
    ),
    Named("reference-loose-setting", "reproducibility", "A setting that is loose here was shown to break equal bits."),
    Named("reference-program-differs", "reproducibility", "Two runs of a program do not compute the same bits."),
    Named("reference-accuracy", "reproducibility", "The accuracy of a training lies outside of the recorded band."),
    Named("reference-slow", "performance", "A training runs slower than the device allows, or its speed says nothing."),
)
