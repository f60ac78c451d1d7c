//! Vocabulary: the words of the embedded server, so that text, token ids and counts agree.

use crate::rng::Seed;

/// Ids below this are valid.
pub(crate) const SIZE: u32 = 32_000;

/// The id of the first word; the ids below stand for control tokens.
const FIRST_WORD: u32 = 1000;

/// The id of the first piece of an unknown word.
const FIRST_PIECE: u32 = 2000;

/// Characters in a piece of an unknown word: about what real vocabularies reach in English.
const PIECE_CHARS: usize = 4;

/// One token each. A few hold characters of two to four bytes, as real output does.
const WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "with", "was", "on", "be",
    "by", "light", "beam", "phase", "fringe", "mirror", "path", "wave", "source", "split", "arm",
    "lens", "drift", "noise", "count", "start", "round", "load", "token", "queue", "batch",
    "cache", "block", "step", "slow", "fast", "first", "last", "next", "even", "still", "near",
    "far", "long", "short", "warm", "cold", "high", "low", "one", "two", "three", "four", "naïve",
    "café", "über", "été", "日本", "光", "🔭",
];

/// The text of a token, with its leading space.
pub(crate) fn text_of(id: u32) -> String {
    let index = (id.wrapping_sub(FIRST_WORD) as usize) % WORDS.len();
    format!(" {}", WORDS[index])
}

/// The text of several tokens.
pub(crate) fn text_of_all(ids: &[u32]) -> String {
    ids.iter().map(|id| text_of(*id)).collect()
}

/// The ids of a text: one for each known word, one for each four characters of any other.
pub(crate) fn ids_of(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    for word in text.split_whitespace() {
        if let Some(index) = WORDS.iter().position(|known| *known == word) {
            ids.push(FIRST_WORD + u32::try_from(index).unwrap_or(0));
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        for piece in characters.chunks(PIECE_CHARS) {
            let piece: String = piece.iter().collect();
            let spread = Seed(0).named(&piece).0 % u64::from(SIZE - FIRST_PIECE);
            ids.push(FIRST_PIECE + u32::try_from(spread).unwrap_or(0));
        }
    }
    ids
}

/// The token that a request generates at this place.
pub(crate) fn generated(text_seed: Seed, place: u32) -> u32 {
    let index = text_seed.nth(u64::from(place)).0 % WORDS.len() as u64;
    FIRST_WORD + u32::try_from(index).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_counts_as_it_was_generated() {
        let ids: Vec<u32> = (0..500).map(|place| generated(Seed(7), place)).collect();
        assert_eq!(ids_of(&text_of_all(&ids)), ids);
    }

    #[test]
    fn unknown_words_are_counted_by_pieces_and_are_valid() {
        let ids = ids_of("the interferometer");
        assert_eq!(ids.len(), 1 + 4); // 14 characters: 4 + 4 + 4 + 2
        assert!(ids.iter().all(|id| *id < SIZE));
        assert!(ids_of(" \n").is_empty());
    }
}
