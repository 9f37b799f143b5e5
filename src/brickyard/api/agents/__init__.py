"""Operations that agents call."""
