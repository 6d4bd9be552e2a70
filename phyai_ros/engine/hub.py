# Copyright 2026 the phyai_ros authors. SPDX-License-Identifier: Apache-2.0
"""A checkpoint's name -> a local directory: a path as it is, the name of an embedded checkpoint, or
a hub id through the hub's own client (its cache, progress bar, token and offline mode)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from phyai_ros.engine import embedded
from phyai_ros.engine.types import PolicyError

CHECKPOINT_FILES = ("*.json", "*.safetensors", "*.model", "*.jinja", "assets/**")
"""What a policy needs; never a pickle."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_id(name: str) -> bool:
    """Whether this is how the hub spells a repository (``owner/name``)."""
    return _HUB_ID.fullmatch(name) is not None


def resolve(
    name: str | Path, revision: str | None = None, patterns: Sequence[str] = CHECKPOINT_FILES
) -> Path:
    """A directory, the name of an embedded checkpoint, or ``owner/name`` on the hub at ``revision``
    (branch, tag or commit), which ``owner/name@revision`` says too, and more nearly. Without a
    connection the cached snapshot serves. Raises PolicyError when there is none of them."""
    if not str(name):  # pathlib reads it as the current directory, which nobody meant
        raise PolicyError(
            "checkpoint: expected a directory, an embedded checkpoint "
            f"({', '.join(embedded.names())}) or a hub id (owner/name), found an empty name"
        )
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):  # of a name that can be no path, pathlib would raise
        return path
    own = embedded.find(str(name))
    if own is not None:
        return own
    if os.path.isfile(path):
        raise PolicyError(
            f"checkpoint {str(name)!r}: expected a directory, found a file: give the one that it "
            f"is in, {str(path.parent)!r}"
        )
    hub_id, _, pinned = str(name).partition("@")
    if _HUB_ID.fullmatch(hub_id) and pinned:
        name, revision = hub_id, pinned
    if not _HUB_ID.fullmatch(str(name)):
        raise PolicyError(
            f"checkpoint {str(name)!r}: no such directory, no embedded checkpoint "
            f"({', '.join(embedded.names())}), and not a hub id (owner/name){_beside(path)}"
        )
    where = f"checkpoint {str(name)!r}" + (f" at revision {revision!r}" if revision else "")
    try:
        return Path(snapshot_download(str(name), revision=revision, allow_patterns=list(patterns)))
    except HFValidationError as error:
        raise PolicyError(f"{where}: no such directory, and not a hub id: {error}") from None
    except GatedRepoError:
        raise PolicyError(
            f"{where}: its owner gives access on request alone: accept the terms on its page, log "
            "in with the hub's own command, then try again"
        ) from None
    except RevisionNotFoundError:
        raise PolicyError(f"{where}: the hub has no such revision") from None
    except RepositoryNotFoundError:
        raise PolicyError(f"{where}: no such directory, and no such hub repository") from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        online = error
    try:
        return Path(
            snapshot_download(
                str(name), revision=revision, allow_patterns=list(patterns), local_files_only=True
            )
        )
    except (LocalEntryNotFoundError, OSError):
        raise PolicyError(
            f"{where}: no such directory, not in the hub cache, and the hub cannot be reached "
            f"({type(online).__name__}: {online})"
        ) from None


def _beside(path: Path) -> str:
    """The directories beside a path that is none, as text; of a bare word nothing, for what lies in
    the current directory has nothing to do with it."""
    parent = path.parent
    if parent == Path() or not parent.is_dir():
        return ""
    near = sorted(p.name for p in parent.iterdir() if p.is_dir() and p.name[:1] != ".")
    return f"; directories in {parent}: {', '.join(near[:20])}" if near else ""
