"""Instance tokens are HMACs of the workspace's key: agents of earlier servers keep theirs."""

from __future__ import annotations

import hmac

import pytest

from brickyard.nodes.tokens import InstanceTokens
from tests.support.golden import Golden


@pytest.mark.parametrize("size", [32, 63, 64, 65, 200])
def test_tokens_are_plain_hmacs(size: int) -> None:
    key = bytes(range(size))
    tokens = InstanceTokens(key=key)
    assert tokens.agent_token("i-1") == hmac.new(key, b"agent/i-1", "sha256").hexdigest()
    assert tokens.server_token("i-1") == hmac.new(key, b"server/i-1", "sha256").hexdigest()
    assert tokens.is_agent("i-1", tokens.agent_token("i-1"))
    assert not tokens.is_agent("i-2", tokens.agent_token("i-1"))
    assert not tokens.is_agent("i-1", tokens.server_token("i-1"))


def test_a_short_key_is_refused(golden: Golden) -> None:
    with golden.refused(ValueError):
        InstanceTokens(key=b"k" * 31)
