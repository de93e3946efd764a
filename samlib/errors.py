"""The errors that samlib raises on purpose; each message is one line that says what to do."""


class IndexFormatError(ValueError):
    """An index file is damaged, foreign, or from a newer version; the message names the file and the remedy."""


class FingerprintError(ValueError):
    """An index file belongs to another tokenizer or vocabulary than the caller's."""


class MissingAssetError(FileNotFoundError):
    """A method needs what is not there (a head, a checkpoint, a data store); the message says how to get it."""


class SetupError(RuntimeError):
    """Something that the user can put right: a missing folder, a wrong name, no network, a bad checksum."""
