"""What `--speed` measures, by name. Needs no torch, so that `--list` is quick. Fields as in smoke_catalogue."""

from smoke_catalogue import Entry


def _entry(name, where, sentence, once="", patience=2):
    module, function = where.split(":")
    return Entry(name, 0, module, function, sentence, once, False, patience)


CATALOGUE = (
    _entry("copy", "speed_rates:copies", "bandwidth to the device, back and within it; pinned and pageable"),
    _entry("matmul", "speed_rates:matmul", "rate of products in each precision"),
    _entry("launch", "speed_rates:launch", "time that one small operation costs, and one answer from the device"),
    _entry("threads", "speed_rates:threads", "rate of products by the number of threads", once="cpu"),
    _entry("training", "speed_training:training", "images a second of the reference model in training, and what AMP gains"),
    _entry("compile", "speed_training:compiled", "what torch.compile gains on the reference model", patience=10),
    _entry("dataloader", "speed_loading:loader", "images a second by the number of DataLoader workers", once="any", patience=4),
    _entry("disk", "speed_loading:disk", "reading a file that is not in memory", once="any"),
)
