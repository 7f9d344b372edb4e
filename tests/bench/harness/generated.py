"""The rows of the generator once more, written from its contract: what a job must have counted."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    """The finaliser of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key_of(seq, splits, keys, distribution="uniform", hot_fraction=0.9, seed=0):
    """The key of the row with number `seq`."""
    split, offset = seq % splits, seq // splits
    base = mix((mix(seed) + split) & MASK)
    r = mix((base + offset * GOLDEN) & MASK)
    if distribution == "uniform":
        return (r * keys) >> 64
    if distribution == "hot":
        if (mix(r) >> 11) * 2.0 ** -53 < hot_fraction:
            return 0
        return 1 + ((r * (keys - 1)) >> 64)
    raise ValueError(f"no distribution '{distribution}'")


def payload_of(seq, splits, size_bytes, seed=0):
    """The payload of the row with number `seq`."""
    split, offset = seq % splits, seq // splits
    r = mix((mix((mix(seed) + split) & MASK) + offset * GOLDEN) & MASK)
    letters = []
    for word in range((size_bytes + 15) // 16):
        octets = mix((r + 2 + word) & MASK).to_bytes(8, "little")
        letters.extend(chr(97 + (octet & 15)) for octet in octets)
        letters.extend(chr(97 + (octet >> 4)) for octet in octets)
    return "".join(letters[:size_bytes])
