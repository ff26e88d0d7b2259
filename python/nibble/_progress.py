"""What `progress=` may be: None, True (a tqdm bar), or a callable (stage, done, total, unit)."""


class _Bar:
    """A tqdm bar for every stage of a piece of work."""

    def __init__(self):
        from tqdm.auto import tqdm  # only who asks for a bar needs it

        self._tqdm, self._bar, self._stage = tqdm, None, None

    def __call__(self, stage, done, total, unit):
        if stage != self._stage or self._bar is None or self._bar.total != total:
            self.close()
            self._stage, self._bar = stage, self._tqdm(desc=stage, total=total, unit=f" {unit}", unit_scale=True)
        self._bar.update(done - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()


def sink(progress):
    """The callable behind `progress`, or None."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return _Bar()
    if not callable(progress):
        raise TypeError(f"progress: expected None, True or a callable (stage, done, total, unit), got {progress!r}")
    return progress


def close(tell):
    """The work is over."""
    if isinstance(tell, _Bar):
        tell.close()
