//! A content hash: the hash that distinguishes datasets and workloads.

/// FNV-1a with 128 bits (Fowler, Noll, Vo; parameters of RFC 9923), as `fnv1a128:` and 32 hex digits.
///
/// It distinguishes different content by accident, not against an adversary, and is the same on every
/// platform and in every version.
#[must_use]
pub fn fnv1a_128(bytes: &[u8]) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash =
        bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    format!("fnv1a128:{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_values() {
        assert_eq!(fnv1a_128(b""), "fnv1a128:6c62272e07bb014262b821756295c58d");
        assert_eq!(fnv1a_128(b"a"), "fnv1a128:d228cb696f1a8caf78912b704e4a8964");
    }
}
