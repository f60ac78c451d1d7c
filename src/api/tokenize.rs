//! Bodies and answers of `/tokenize`, as vLLM and llama-server shape them.

use serde::Deserialize;
use serde_json::{Value, json};

/// The most token ids read from one answer: longer than any context in use.
const MAX_IDS: usize = 4_000_000;

/// What `/tokenize` answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenized {
    /// The ids of the text, without special tokens.
    pub ids: Vec<u32>,
    /// The longest context of the model, tokens, where the server reports it (vLLM).
    pub max_model_len: Option<u32>,
}

/// The body that asks for the ids of `text` without special tokens. It carries the fields of both
/// shapes (vLLM's `prompt`, llama-server's `content`): each server ignores those of the other.
#[must_use]
pub fn tokenize_body(model: &str, text: &str) -> Value {
    json!({
        "model": model,
        "prompt": text,
        "add_special_tokens": false,
        "content": text,
        "add_special": false,
    })
}

/// Reads an answer; ids may be plain, or objects with an `id` (llama-server's `with_pieces`).
///
/// # Errors
/// The text of what is wrong.
pub fn parse_tokenized(body: &[u8]) -> Result<Tokenized, String> {
    #[derive(Deserialize)]
    struct Answer {
        tokens: Vec<Token>,
        max_model_len: Option<u32>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Token {
        Plain(u32),
        Piece { id: u32 },
    }
    let answer: Answer = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    if answer.tokens.len() > MAX_IDS {
        return Err(format!("more than {MAX_IDS} token ids in one answer"));
    }
    let ids = answer.tokens.into_iter().map(|token| match token {
        Token::Plain(id) | Token::Piece { id } => id,
    });
    Ok(Tokenized { ids: ids.collect(), max_model_len: answer.max_model_len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_servers() {
        let vllm = br#"{"count":2,"max_model_len":4096,"tokens":[2819,340],"token_strs":null}"#;
        assert_eq!(
            parse_tokenized(vllm),
            Ok(Tokenized { ids: vec![2819, 340], max_model_len: Some(4096) })
        );
        let llama = br#"{"tokens":[19556,905]}"#;
        assert_eq!(
            parse_tokenized(llama),
            Ok(Tokenized { ids: vec![19556, 905], max_model_len: None })
        );
        let pieces = br#"{"tokens":[{"id":3,"piece":"a"},{"id":4,"piece":[195]}]}"#;
        assert_eq!(parse_tokenized(pieces).unwrap().ids, [3, 4]);
    }

    #[test]
    fn another_answer_is_refused() {
        for body in ["", "{}", r#"{"tokens":null}"#, r#"{"tokens":[-1]}"#, "<html>"] {
            assert!(parse_tokenized(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn the_body_serves_both() {
        let body = tokenize_body("m", "t");
        assert_eq!((&body["prompt"], &body["content"]), (&json!("t"), &json!("t")));
        assert_eq!(body["add_special_tokens"], false);
    }
}
