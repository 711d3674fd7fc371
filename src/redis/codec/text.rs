//! Encodes requests and decodes replies as text, for clients that cannot carry bytes.
//! `lua/dispatch/text_decode.lua` and `text_encode.lua` are the script's side.
//!
//! Each byte is the Unicode character of its number, so that it passes unchanged through a command,
//! UTF-8 and JSON.

use super::reply::ReplyValue;

/// Encodes bytes as text.
#[must_use]
pub fn text_of(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Decodes a reply: `~`, the time, the length of each string after a colon, a semicolon, and the
/// strings.
#[must_use]
pub fn values_of(text: &str) -> Option<Vec<ReplyValue>> {
    let (head, strings) = text.strip_prefix('~')?.split_once(';')?;
    let (now, lengths) = head.split_once(':')?;
    let mut bytes = Vec::with_capacity(strings.len());
    for character in strings.chars() {
        bytes.push(u8::try_from(character).ok()?);
    }
    let mut rest = &bytes[..];
    let mut values = vec![ReplyValue::Number(now.parse().ok()?)];
    for length in lengths.split(':') {
        let string = rest.split_off(..length.parse().ok()?)?;
        values.push(ReplyValue::Bytes(string.to_vec()));
    }
    rest.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = format!("~17:256:0;{}", text_of(&bytes));
        let values = [ReplyValue::Number(17), ReplyValue::Bytes(bytes), ReplyValue::Bytes(vec![])];
        assert_eq!(values_of(&text).as_deref(), Some(&values[..]));
    }

    #[test]
    fn invalid_replies_have_no_values() {
        for text in ["", "OK", "~", "~1;", "~1:2;a", "~1:1;ab", "~x:1;a", "~1:x;a", "~1:1;\u{100}"]
        {
            assert_eq!(values_of(text), None, "{text}");
        }
    }
}
