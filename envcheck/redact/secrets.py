"""Passwords, tokens and keys."""

from __future__ import annotations

import re

from envcheck.lazy import Regex

TOKEN = "<token>"  # noqa: S105 - a placeholder

_URL_LOGIN = Regex(r"(?<![\w+.-])([A-Za-z][A-Za-z0-9+.-]{0,20}://)(?!git@)[^\s/@<>\"']{1,300}@")

_TOKENS = Regex(
    r"(?<![A-Za-z0-9_-])(?:"
    r"hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|pypi-[A-Za-z0-9_-]{40,}|npm_[A-Za-z0-9]{30,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}|dckr_pat_[A-Za-z0-9_-]{16,}|wandb_v\d_[A-Za-z0-9_]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}"
    r")"
)
_TOKEN_HINTS = ("hf_", "gh", "glpat-", "sk-", "AKIA", "ASIA", "xox", "AIza", "ya29.", "pypi-", "npm_", "nvapi-",
                "dckr_pat_", "wandb_v", "eyJ")  # fmt: skip

_BEARER = Regex(r"(?i)\b(bearer|basic)[ \t]{1,4}([A-Za-z0-9_.~+/=-]{12,})")

# A key that names a secret, then its value. `tokens`, `tokenizer` and `pad_token` are no secrets: see _secret.
_SECRET = Regex(
    r"(?i)(?<![A-Za-z])((?:[a-z0-9]{1,20}[_-]){0,4}"
    r"(api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?key)?|private[_-]?key|token|passw(?:or)?d|passphrase|pwd"
    r"|credentials?|auth|signature|sig|account[_-]?key)"
    r"[\"']?)([ \t]{0,3}[:=][ \t]{0,3}|[ \t]{1,3})([\"']?)([^\s\"'&,;<>]{3,400})"
)
_SECRET_HINT = Regex(r"(?i)key|secret|token|passw|passphrase|pwd|credential|auth|sig")
_SPECIAL_TOKENS = Regex(
    r"(?i)(?:^|[_-])(?:pad|eos|bos|unk|sep|cls|mask|image|special|start|end|stop|next|per)[_-]token"
)
_PRIVATE_KEY = Regex(r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)[A-Za-z0-9+/=\s]{1,8000}(-----END)")
_KEY_HEX = Regex(r"(?i)(\b(?:key|token|secret|password)\b[^\n:=]{0,60}[:=][ \t]{0,4})([0-9a-f]{32,})(?![\w])")
_NO_SECRET = Regex(r"(?i)[<\[{(/$%*.]|[a-z]:[\\/]|none\b|null\b|true\b|false\b|os\.|self\.|xxx|placeholder|your")


def redact_secrets(text: str) -> str:
    """The text without secrets: by their form, and by the key before them."""
    if "://" in text:
        text = _URL_LOGIN.sub(rf"\1{TOKEN}@", text)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{TOKEN}\2", text)
    if any(hint in text for hint in _TOKEN_HINTS):
        text = _TOKENS.sub(lambda m: TOKEN if any(c.isdigit() for c in m[0]) else m[0], text)
    if _SECRET_HINT.search(text):
        text = _BEARER.sub(_bearer, text)
        text = _KEY_HEX.sub(rf"\1{TOKEN}", text)
        text = _SECRET.sub(_secret, text)
    return text


def _bearer(match: re.Match[str]) -> str:
    return match[0].replace(match[2], TOKEN) if any(c.isdigit() for c in match[2]) else match[0]


def _secret(match: re.Match[str]) -> str:
    """Decides by the key and the shape of the value: `max_tokens=4096` and `pad_token: [PAD]` are no secrets."""
    key, word, separator, value = match[1], match[2].lower(), match[3], match[5]
    if _NO_SECRET.match(value) or _SPECIAL_TOKENS.search(key):
        return match[0]
    if not separator.strip() and match.string[max(0, match.start() - 2) : match.start()] != "--":
        return match[0]
    if word.startswith(("passw", "pwd", "passphrase")):
        return f"{key}{separator}{match[4]}{TOKEN}"
    has_letter, has_digit = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    mixed = len(value) >= 8 and has_letter and has_digit and not set(value) & set("()\\")
    if mixed or (word.startswith("secret") and len(value) >= 6):
        return f"{key}{separator}{match[4]}{TOKEN}"
    return match[0]
