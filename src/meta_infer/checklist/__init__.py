"""The conversion checklist: what stands between a model and a chip, as data (checklist.yaml) over probes."""
